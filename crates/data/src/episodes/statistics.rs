//! Statistics of the channels of a vector, for normalisation.

use super::store::chosen;
use super::{EpisodeError, Episodes, Span};
use robocache_ops::dtype::DType;

/// Of one channel, over the rows of the episodes that no later message replaced.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelStatistics {
    /// The channel's name.
    pub name: String,
    /// Rows.
    pub count: u64,
    /// The mean. NaN if there is no row, as are the others.
    pub mean: f64,
    /// The standard deviation of all rows: the divisor is their number.
    pub std: f64,
    /// The least value.
    pub min: f64,
    /// The greatest value.
    pub max: f64,
    /// The values below which 1 % and 99 % of the rows are, on straight lines between neighbours.
    pub quantiles: [f64; 2],
}

/// The statistics of each channel of the rows of a vector, in the order of its channels: of all episodes, or of those
/// of these numbers. Operators that act after an interpolation have not acted on rows. Sums are in the order of the
/// rows, in f64.
///
/// # Errors
/// The stream is no vector; there is no such stream or episode.
pub fn statistics(
    episodes: &Episodes,
    stream: &str,
    numbers: Option<&[usize]>,
) -> Result<Vec<ChannelStatistics>, EpisodeError> {
    let (_, stream) = episodes.stream(stream)?;
    let numbers = chosen(numbers, None, episodes.episodes.len())?;
    let means = &stream.means;
    let Some(vector) = &means.vector else {
        let what = format!("stream '{}'", means.name);
        return Err(EpisodeError::of(what, "a vector", "images or grids"));
    };
    let asked = |span: &Span| numbers.binary_search(&(span.episode as usize)).is_ok();
    let asked: Vec<bool> = episodes.spans.iter().map(asked).collect();
    let mut all = vec![None; vector.channels.len()];
    for (number, (ring, group)) in stream.rings.iter().zip(&vector.groups).enumerate() {
        let dtype = means.row_dtypes[number];
        let row_bytes = group.channels.len() * dtype.size();
        let Some(rows) = ring.rows.plain() else { continue }; // rows of vectors are never compressed
        let rows = rows.bytes();
        let replaced = ring.replaced.bytes();
        let row = |at: usize| &rows[at * row_bytes..][..row_bytes];
        // Rows of episodes that were not asked for are in no span.
        let own = ring.spans.iter().zip(&asked).filter(|(_, asked)| **asked);
        let own = own.flat_map(|(rows, _)| rows.range());
        let stays = own.filter(|at| replaced[*at] == 0).map(row);
        for (at, channel) in group.channels.iter().enumerate() {
            let values = stays.clone().map(|row| float(dtype, &row[at * dtype.size()..]));
            let name = vector.channels[*channel].name.clone();
            all[*channel] = Some(of_channel(name, values.collect()));
        }
    }
    Ok(all.into_iter().flatten().collect())
}

fn float(dtype: DType, bytes: &[u8]) -> f32 {
    let half = || u16::from_le_bytes([bytes[0], bytes[1]]);
    match dtype {
        DType::F16 => half::f16::from_bits(half()).to_f32(),
        DType::Bf16 => half::bf16::from_bits(half()).to_f32(),
        DType::U8 => f32::from(bytes[0]),
        DType::F32 => f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
        DType::I32 => i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as f32,
    }
}

fn of_channel(name: String, mut values: Vec<f32>) -> ChannelStatistics {
    let count = values.len() as f64;
    // Differences from the first value are small where the values themselves are not.
    let origin = values.first().map_or(0.0, |first| f64::from(*first));
    let mean = origin + values.iter().map(|v| f64::from(*v) - origin).sum::<f64>() / count;
    let square = |value: &f32| (f64::from(*value) - mean) * (f64::from(*value) - mean);
    let std = (values.iter().map(square).sum::<f64>() / count).sqrt();
    values.sort_unstable_by(f32::total_cmp);
    let end = |value: Option<&f32>| value.map_or(f64::NAN, |value| f64::from(*value));
    let quantile = |share: f64| {
        let at = share * (count - 1.0);
        let below = end(values.get(at.max(0.0) as usize));
        let above = values.get(at.max(0.0) as usize + 1).map_or(below, |above| f64::from(*above));
        below + (at - at.floor()) * (above - below)
    };
    ChannelStatistics {
        name,
        count: values.len() as u64,
        mean,
        std,
        min: end(values.first()),
        max: end(values.last()),
        quantiles: [quantile(0.01), quantile(0.99)],
    }
}
