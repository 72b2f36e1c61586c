//! Pictures of images and depth, and grids from above and from the side.

use super::parts::describe;
use super::track::{Kept, Segment, Step, Track};
use crate::report::{Figure, HeatMap, Picture, Section, number};
use robocache_core::config;
use robocache_core::encoder::Drawn;
use robocache_core::encoder::kind;
use robocache_core::message::{SegmentInfo, StepRead, TensorInfo};
use robocache_core::visual;
use robocache_ops::align::NO_AGE;
use robocache_ops::dtype::DType;
use robocache_ops::image::{Color, ImageLayout};
use robocache_ops::time::Stamp;

/// Most cells of a grid that is drawn, in each of its two views.
const MAX_CELLS: usize = 16 << 20;

/// The dimensions of a shape.
pub(super) fn dims(shape: &[usize]) -> String {
    shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" \u{d7} ")
}

/// Age and instant of a picture.
fn caption(step: &Step, stamp: Stamp, track: &Track) -> String {
    let at = number(stamp.since(track.origin()) as f64 / 1e9, 2);
    if track.rows_from.is_some() {
        return format!("+{at} s");
    }
    match (step.valid, step.age_ns) {
        (true, age) => format!("+{at} s, age {} ms", number(age as f64 / 1e6, 1)),
        (false, NO_AGE) => format!("+{at} s, not valid: no row"),
        (false, age) => format!("+{at} s, not valid, age {} ms", number(age as f64 / 1e6, 1)),
    }
}

/// The segments of images and of depth, each at several ticks.
pub(super) fn cameras(tracks: &[Track]) -> Section {
    let mut section = Section::new("Cameras");
    for (track, segment) in tracks.iter().flat_map(Track::each) {
        let Some(info) = &track.info else { continue };
        let Some(of) = info.segment(&segment.name) else { continue };
        let Some(view) = view(segment, of, info) else { continue };
        if section.is_empty() {
            section.text(match track.rows_from {
                None => {
                    "The tensor's values, without the normalisation (value \u{d7} std + mean). The policy sees only \
                     this. A picture that is crossed out is not valid."
                }
                Some(_) => "The rows' values, without the normalisation (value \u{d7} std + mean).",
            });
        }
        let mut remark = describe(segment, Some(of));
        if of.encoder == kind::DEPTH {
            remark += "; near is dark, far is bright, black has no distance";
        }
        section.heading(&segment.name, &remark);
        let picture = |kept: &Kept| {
            let step = kept.steps.get(&segment.name)?;
            let seen = seen(step);
            let [width, height] = size(segment, of)?;
            let picture = Picture::of(width, height, &view.pixels(&seen)?)?;
            let reach = view.reach(&seen).map(|[near, far]| {
                format!(", {} to {} m", number(f64::from(near), 2), number(f64::from(far), 2))
            });
            let caption = caption(step, kept.stamp, track);
            Some((picture, caption + &reach.unwrap_or_default()))
        };
        section.pictures(&segment.name, track.kept.iter().filter_map(picture));
    }
    section
}

fn seen(step: &Step) -> StepRead<'_> {
    let Step { valid, target, count, bytes, .. } = step;
    StepRead { valid: *valid, target: *target, count: *count, bytes }
}

/// Width and height of a segment's pictures.
fn size(segment: &Segment, info: &SegmentInfo) -> Option<[usize; 2]> {
    match (&segment.shape[..], info.layout.as_str()) {
        ([_, height, width, _], "hwc") => Some([*width, *height]),
        ([_, _, height, width], _) => Some([*width, *height]),
        ([_, height, width], _) => Some([*width, *height]),
        _ => None,
    }
}

/// How a segment of images or depth is shown; `None` if it is neither, or cannot be shown.
fn view(segment: &Segment, info: &SegmentInfo, all: &TensorInfo) -> Option<visual::Picture> {
    let dtype = *DType::ALL.iter().find(|dtype| dtype.name() == segment.dtype)?;
    let size = size(segment, info)?;
    match info.encoder.as_str() {
        kind::IMAGE => {
            let names: Vec<&str> = info.channels.iter().map(String::as_str).collect();
            let colors = [Color::Rgb, Color::Bgr, Color::Mono];
            let color = colors.into_iter().find(|color| color.names() == names)?;
            let layouts = [ImageLayout::Chw, ImageLayout::Hwc];
            let layout = layouts.into_iter().find(|layout| layout.name() == info.layout)?;
            let per_channel = |values: &[f32], default: f32| {
                std::array::from_fn(|at| values.get(at).copied().unwrap_or(default))
            };
            let normalisation = [per_channel(&info.mean, 0.0), per_channel(&info.std, 1.0)];
            visual::Picture::of_color(color, layout, size, dtype, normalisation).ok()
        }
        kind::DEPTH => Some(visual::Picture::of_distances(size, dtype, fill_m(&segment.name, all))),
        _ => None,
    }
}

/// The value of pixels without a distance, as the configuration says; by default 0.
fn fill_m(name: &str, info: &TensorInfo) -> f32 {
    let config = config::parse(&info.config, &info.config_file).ok();
    let stream = config.as_ref().and_then(|config| config.streams.iter().find(|s| s.name == name));
    match stream.map(|stream| stream.encoder.drawn(stream.dtype)) {
        Some(Drawn::Distances { fill_m, .. }) => fill_m,
        _ => 0.0,
    }
}

/// Every channel of every grid, of the last tensor that was kept with a valid one.
pub(super) fn grids(tracks: &[Track]) -> Section {
    let mut section = Section::new("Voxel grids");
    for (track, segment) in tracks.iter().flat_map(Track::each) {
        let Some(info) = &track.info else { continue };
        let Some(of) = info.segment(&segment.name) else { continue };
        let newest = |kept: &&Kept| kept.steps.get(&segment.name).is_some_and(|step| step.valid);
        let kept = track.kept.iter().rev().find(newest).or(track.kept.last());
        let Some((kept, step)) = kept.and_then(|kept| Some((kept, kept.steps.get(&segment.name)?)))
        else {
            continue;
        };
        let grid = match of.encoder.as_str() {
            kind::VOXELS => Voxels::dense(segment, of, step),
            kind::SPARSE_VOXELS => Voxels::sparse(segment, of, step, coordinates(info, of, kept)),
            _ => continue,
        };
        section.heading(&segment.name, &describe(segment, Some(of)));
        let Some(grid) = grid else {
            section.text(
                "Its grid cannot be drawn: the shape is not that of a grid, or it is too large.",
            );
            continue;
        };
        for channel in 0..of.channels.len() {
            section.pair(grid.views(channel, &of.channels[channel]));
        }
        section.text(&format!(
            "{} voxels of {} m are in use; {}. The axes are those of {}.",
            grid.in_use(),
            number(f64::from(of.size_m), 3),
            caption(step, kept.stamp, track),
            if info.base_frame.is_empty() { "the base frame" } else { &info.base_frame },
        ));
    }
    section
}

/// Picture of a step of a segment.
pub(super) enum Shown {
    /// Red, green and blue, line by line.
    Image {
        /// Width and height \[px\].
        size: [usize; 2],
        /// \[height, width, 3\]
        rgb: Vec<u8>,
    },
    /// Distances \[m\], 0 without a measurement.
    Depth {
        /// Width and height \[px\].
        size: [usize; 2],
        /// \[height, width\]
        distances: Vec<f32>,
    },
    /// Voxels.
    Grid(Voxels),
}

/// Picture of a segment in a tensor that was kept; `None` if it is no image, depth or grid.
pub(super) fn shown(segment: &Segment, info: &TensorInfo, kept: &Kept) -> Option<Shown> {
    let of = info.segment(&segment.name)?;
    let step = kept.steps.get(&segment.name)?;
    match of.encoder.as_str() {
        kind::IMAGE => {
            let rgb = view(segment, of, info)?.pixels(&seen(step))?;
            Some(Shown::Image { size: size(segment, of)?, rgb })
        }
        kind::DEPTH => {
            let [width, height] = size(segment, of)?;
            let fill_m = fill_m(&segment.name, info);
            let distance =
                |value: f32| if value == fill_m || !value.is_finite() { 0.0 } else { value };
            let values = visual::elements(dtype(segment)?, &step.bytes);
            let distances: Vec<f32> = values.into_iter().map(distance).collect();
            let fits = distances.len() == width * height;
            fits.then_some(Shown::Depth { size: [width, height], distances })
        }
        kind::VOXELS => Voxels::dense(segment, of, step).map(Shown::Grid),
        kind::SPARSE_VOXELS => {
            Voxels::sparse(segment, of, step, coordinates(info, of, kept)).map(Shown::Grid)
        }
        _ => None,
    }
}

/// The coordinates of a sparse grid, which have a segment of their own.
fn coordinates<'a>(info: &TensorInfo, of: &SegmentInfo, kept: &'a Kept) -> Option<&'a Step> {
    let name = format!("{}.coordinates", of.name);
    let is_there = info.segment(&name).is_some_and(|info| info.encoder == kind::VOXEL_COORDINATES);
    if is_there { kept.steps.get(&name) } else { None }
}

/// The voxels in use of a grid.
pub(super) struct Voxels {
    /// The lower corner \[m\].
    pub origin_m: [f64; 3],
    /// The edge of a voxel \[m\].
    pub size_m: f64,
    /// Voxels along x, y and z.
    shape: [usize; 3],
    /// Place x, y, z of each, and its values.
    pub voxels: Vec<([usize; 3], Vec<f32>)>,
}

impl Voxels {
    /// Voxels of a grid \[channels, z, y, x\].
    fn dense(segment: &Segment, info: &SegmentInfo, step: &Step) -> Option<Self> {
        let [_, channels, nz, ny, nx] = segment.shape[..] else { return None };
        let values = visual::elements(dtype(segment)?, &step.bytes);
        let volume = nx.checked_mul(ny)?.checked_mul(nz)?;
        if values.len() != volume * channels {
            return None;
        }
        let of = |voxel: usize| (0..channels).map(move |channel| channel * volume + voxel);
        let in_use = |voxel: &usize| of(*voxel).any(|at| values[at] != 0.0);
        let voxels = (0..volume).filter(in_use).map(|voxel| {
            let place = [voxel % nx, voxel / nx % ny, voxel / (nx * ny)];
            (place, of(voxel).map(|at| values[at]).collect())
        });
        Self::new(info, [nx, ny, nz], voxels.collect())
    }

    /// Voxels of a sparse grid: rows \[max_voxels, channels\], and coordinates z, y, x of each.
    fn sparse(
        segment: &Segment,
        info: &SegmentInfo,
        step: &Step,
        coordinates: Option<&Step>,
    ) -> Option<Self> {
        let [_, _, channels] = segment.shape[..] else { return None };
        let values = visual::elements(dtype(segment)?, &step.bytes);
        let (words, _) = coordinates?.bytes.as_chunks::<4>();
        let places = words.as_chunks::<3>().0.iter().map(|zyx| {
            let [z, y, x] = zyx.map(|word| usize::try_from(i32::from_le_bytes(word)).ok());
            Some([x?, y?, z?])
        });
        let rows = values.chunks_exact(channels.max(1)).map(<[f32]>::to_vec);
        let voxels = places.zip(rows).take(step.count as usize);
        let voxels: Vec<_> = voxels.filter_map(|(place, row)| Some((place?, row))).collect();
        // The size of the grid is not told; this is what the voxels fill.
        let side = |axis: usize| voxels.iter().map(|(place, _)| place[axis] + 1).max().unwrap_or(1);
        Self::new(info, std::array::from_fn(side), voxels)
    }

    fn new(
        info: &SegmentInfo,
        shape: [usize; 3],
        voxels: Vec<([usize; 3], Vec<f32>)>,
    ) -> Option<Self> {
        let [nx, ny, nz] = shape;
        let fits = |a: usize, b: usize| a.checked_mul(b).is_some_and(|cells| cells <= MAX_CELLS);
        let origin_m = <[f64; 3]>::try_from(info.origin_m.as_slice()).ok()?;
        let size_m = f64::from(info.size_m);
        (fits(nx, ny) && fits(nx, nz)).then_some(Voxels { origin_m, size_m, shape, voxels })
    }

    fn in_use(&self) -> usize {
        self.voxels.len()
    }

    /// A channel from above and from the side. Counts and sums add up; of other channels the largest shows.
    fn views(&self, channel: usize, name: &str) -> [(Figure, String); 2] {
        let adds = name == "count" || name.starts_with("sum");
        let map = |rows: usize, what: &str, label: &str| {
            let columns = self.shape[0];
            let mut values = vec![0.0f32; columns * self.shape[rows]];
            for (place, row) in &self.voxels {
                let cell = &mut values[place[rows] * columns + place[0]];
                let value = row.get(channel).copied().unwrap_or(0.0);
                *cell = if adds { *cell + value } else { larger(*cell, value) };
            }
            let ends = |axis: usize| {
                let low = self.origin_m[axis];
                (low, low + self.size_m * self.shape[axis] as f64)
            };
            let title = format!("{name} {what}");
            let map = HeatMap::new(&title, ["x [m]", label], ends(0), ends(rows), columns, values);
            Figure::from(&if adds { map.logarithmic() } else { map })
        };
        let (over, scale) =
            if adds { ("sum", ", logarithmic colours") } else { ("largest value", "") };
        [
            (map(1, "from above", "y [m]"), format!("{name} from above ({over} over z{scale})")),
            (
                map(2, "from the side", "z [m]"),
                format!("{name} from the side ({over} over y{scale})"),
            ),
        ]
    }
}

/// The value that is further from zero: 0 is an empty voxel.
fn larger(a: f32, b: f32) -> f32 {
    if b.abs() > a.abs() { b } else { a }
}

fn dtype(segment: &Segment) -> Option<DType> {
    DType::ALL.into_iter().find(|dtype| dtype.name() == segment.dtype)
}
