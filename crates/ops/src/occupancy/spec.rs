//! Specification of map rows, and the cells of maps.

/// The greatest probability of a cell \[%\].
pub const MAX_PERCENT: u8 = 100;

/// How the part of a map around a frame becomes a row.
///
/// The row is centred on the origin of the frame and aligned with its axes. Index `[0, j, i]` is the cell whose centre
/// is at `x = (i + 0.5 - width / 2) * resolution_m`, `y = (j + 0.5 - height / 2) * resolution_m`: row 0 is at the least
/// y, as in the map itself. A centre that is outside of the map is unknown.
///
/// A number of the map from 0 to `free_max` is free, from `occupied_min` to 100 occupied, and any other number outside
/// of 0 to 100 unknown.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct OccupancySpec {
    /// Cells along x.
    pub width: usize,
    /// Cells along y.
    pub height: usize,
    /// Edge of a cell of the row \[m\].
    pub resolution_m: f64,
    /// The value of a free cell.
    pub free: f32,
    /// The value of an occupied cell.
    pub occupied: f32,
    /// The value of an unknown cell.
    pub unknown: f32,
    /// The greatest probability of a free cell \[%\].
    pub free_max: u8,
    /// The least probability of an occupied cell \[%\]; greater than `free_max`.
    pub occupied_min: u8,
    /// Treatment of the probabilities between free and occupied.
    pub between: Between,
}

/// Treatment of a probability between free and occupied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Between {
    /// A value between those of free and occupied: `free + p / 100 * (occupied - free)`, in `f32`.
    #[default]
    Probability,
    /// The value of an unknown cell.
    Unknown,
}

impl OccupancySpec {
    /// The value of a cell with this number, as the map has it.
    pub fn value(&self, number: i8) -> f32 {
        let percent = match u8::try_from(number) {
            Ok(percent) if percent <= MAX_PERCENT => percent,
            _ => return self.unknown,
        };
        match self.between {
            _ if percent <= self.free_max => self.free,
            _ if percent >= self.occupied_min => self.occupied,
            Between::Unknown => self.unknown,
            Between::Probability => {
                let share = f32::from(percent) / f32::from(MAX_PERCENT);
                self.free + share * (self.occupied - self.free)
            }
        }
    }
}
