//! Which points of clouds are left out.

use super::check::{Check, Range, is_frame};
use super::raw::{CropAction, RawCloud, RawCrop, RawSolid, RawTransform};
use super::transform::transform;
use crate::tf::MAX_NAME;
use robocache_ops::voxelize::{Action, Filter, Form, Shape, ShapeFrame, inverse};

/// Most shapes of a stream: each costs time for every point.
const MAX_SHAPES: usize = 64;

/// Validates the keys of the mapping at `key` that leave points out, and takes them from it.
pub(super) fn filter(
    check: &mut Check<'_>,
    key: &str,
    raw: &mut RawCloud,
    base_frame: &str,
) -> Option<Filter> {
    let mut limit = |name: &str, given: Option<f64>| match given {
        None => Some(None),
        Some(m) => check.number(&format!("{key}.{name}"), m, Range::POSITIVE_M).map(Some),
    };
    let least = limit("min_range_m", raw.min_range_m);
    let greatest = limit("max_range_m", raw.max_range_m);
    let in_order = match (least, greatest) {
        (Some(Some(least)), Some(Some(greatest))) if least >= greatest => {
            let expected = format!("a number greater than min_range_m ({least})");
            check.fail(&format!("{key}.max_range_m"), expected);
            false
        }
        _ => true,
    };
    let crop = raw.crop.take().unwrap_or_default();
    let solids = raw.self_filter.take().unwrap_or_default();
    if crop.len() + solids.len() > MAX_SHAPES {
        let found = (crop.len() + solids.len()).to_string();
        let at = if crop.len() > MAX_SHAPES { "crop" } else { "self_filter" };
        let expected = format!("at most {MAX_SHAPES} shapes in crop and self_filter");
        check.fail_found(&format!("{key}.{at}"), expected, found);
        return None;
    }
    let boxes = crop.into_iter().enumerate();
    let boxes: Vec<_> = boxes
        .map(|(i, raw)| crop_box(check, &format!("{key}.crop[{i}]"), raw, base_frame))
        .collect();
    let solids = solids.into_iter().enumerate();
    let solids: Vec<_> = solids
        .map(|(i, raw)| solid(check, &format!("{key}.self_filter[{i}]"), raw, base_frame))
        .collect();
    let shapes = boxes.into_iter().chain(solids).collect::<Option<_>>()?;
    let [min_range_m, max_range_m] = [least?, greatest?].map(|m| m.map(|m| m as f32));
    in_order.then_some(Filter { min_range_m, max_range_m, shapes })
}

/// A box whose points are kept, or left out.
fn crop_box(check: &mut Check<'_>, key: &str, raw: RawCrop, base_frame: &str) -> Option<Shape> {
    let mut corner = |name: &str, given: Option<Vec<f64>>| {
        let at = format!("{key}.{name}");
        let values = check.required(&at, given, "a corner [x, y, z] of the box in metres")?;
        check.numbers::<3>(&at, &values, Range::ANY_M)
    };
    let corners = (corner("min_m", raw.min_m), corner("max_m", raw.max_m));
    let frame = frame(check, key, raw.frame, base_frame);
    let t_shape_frame = pose(check, key, raw.pose);
    let (Some(min_m), Some(max_m)) = corners else { return None };
    if let Some(axis) = (0..3).find(|axis| min_m[*axis] >= max_m[*axis]) {
        let expected = format!("a number greater than that of min_m ({})", min_m[axis]);
        check.fail(&format!("{key}.max_m[{axis}]"), expected);
        return None;
    }
    let action = match raw.action.unwrap_or(CropAction::Keep) {
        CropAction::Keep => Action::Keep,
        CropAction::Remove => Action::Remove,
    };
    let form = Form::Box { min_m: min_m.map(|m| m as f32), max_m: max_m.map(|m| m as f32) };
    Some(Shape { action, form, frame: frame?, t_shape_frame: t_shape_frame? })
}

/// A box or a sphere that is a part of the robot.
fn solid(check: &mut Check<'_>, key: &str, raw: RawSolid, base_frame: &str) -> Option<Shape> {
    let form = match (raw.size_m, raw.radius_m) {
        (Some(size), None) => {
            let size = check.numbers::<3>(&format!("{key}.size_m"), &size, Range::POSITIVE_M);
            size.map(|size| {
                let half = size.map(|m| (m / 2.0) as f32);
                Form::Box { min_m: half.map(|m| -m), max_m: half }
            })
        }
        (None, Some(radius)) => check
            .number(&format!("{key}.radius_m"), radius, Range::POSITIVE_M)
            .map(|radius_m| Form::Sphere { radius_m: radius_m as f32 }),
        (None, None) => {
            check.fail(key, "size_m, the edges [x, y, z] of a box, or radius_m, of a sphere");
            None
        }
        (Some(_), Some(_)) => {
            check.fail_found(&format!("{key}.radius_m"), "only one of size_m and radius_m", "both");
            None
        }
    };
    let frame = frame(check, key, raw.frame, base_frame);
    let t_shape_frame = pose(check, key, raw.pose);
    Some(Shape { action: Action::Robot, form: form?, frame: frame?, t_shape_frame: t_shape_frame? })
}

/// The frame of a shape's pose. With a leading `/` it is no word of ours, but a frame of the tree.
fn frame(
    check: &mut Check<'_>,
    key: &str,
    raw: Option<String>,
    base_frame: &str,
) -> Option<ShapeFrame> {
    let named = match raw.as_deref() {
        None | Some("base") => return Some(ShapeFrame::Base),
        Some("sensor") => return Some(ShapeFrame::Sensor),
        Some(name) => name.strip_prefix('/').unwrap_or(name),
    };
    let at = format!("{key}.frame");
    if !is_frame(named) || named.starts_with('/') {
        let expected =
            format!("base, sensor, or the name of a frame of tf, at most {MAX_NAME} bytes");
        check.fail(&at, expected);
        return None;
    }
    Some(match named == base_frame {
        true => ShapeFrame::Base,
        false => ShapeFrame::Tf(named.to_owned()),
    })
}

/// The pose of a shape, the other way: takes a point of the frame to the shape.
fn pose(check: &mut Check<'_>, key: &str, raw: Option<RawTransform>) -> Option<[[f64; 4]; 3]> {
    let t_frame_shape = transform(check, &format!("{key}.pose"), raw.unwrap_or_default())?;
    Some(inverse(&t_frame_shape))
}
