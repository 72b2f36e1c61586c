//! Maps of cells, and the part of a map around a frame: what all encoders of maps share.
//!
//! A row is centred on the origin of the frame and aligned with its axes. [`centre`] has its cells, and [`CropToMap`] finds
//! the cell of the map there.

/// Returns the centre of cell `at` of a row along an axis of so many cells \[m\].
#[inline]
pub fn centre(at: usize, cells: usize, resolution_m: f64) -> f64 {
    (at as f64 + 0.5 - cells as f64 / 2.0) * resolution_m
}

/// A map whose declared size has been checked against its data: `data.len() == width * height`. Its numbers are
/// finite.
#[derive(Clone, Copy, Debug)]
pub struct MapView<'a> {
    /// Cells along x.
    pub width: usize,
    /// Cells along y.
    pub height: usize,
    /// Edge of a cell \[m\], greater than 0.
    pub resolution_m: f64,
    /// Takes a point of the map, whose lower corner is its origin, to the frame of the message: `[R | t]` row by row.
    pub t_frame_map: [[f64; 4]; 3],
    /// Takes a point of the frame of the message to the frame that the row is centred on.
    pub t_crop_frame: [[f64; 4]; 3],
    /// The cells as `int8`, row-major: those of the least y first.
    pub data: &'a [u8],
}

/// From the plane of a row to the plane of a map: what is above or below is projected onto the map.
#[derive(Clone, Copy, Debug)]
pub struct CropToMap {
    /// Per axis of the map: the factors of x and y, and the offset \[m\].
    rows: [[f64; 3]; 2],
    resolution_m: f64,
    size: [usize; 2],
}

impl CropToMap {
    /// The way from the row that the view places to its map.
    pub fn new(view: &MapView<'_>) -> Self {
        // A rotation goes back by its columns.
        let to_crop = &view.t_crop_frame;
        let to_frame = &view.t_frame_map;
        // Where the origin of the crop is in the frame of the message, and there from the map's lower corner.
        let back = |m: &[[f64; 4]; 3], v: [f64; 3]| -> [f64; 3] {
            std::array::from_fn(|i| (m[0][i] * v[0] + m[1][i] * v[1]) + m[2][i] * v[2])
        };
        let origin = back(to_crop, to_crop.map(|row| -row[3]));
        let from_corner = std::array::from_fn(|i| origin[i] - to_frame[i][3]);
        let origin = back(to_frame, from_corner);
        // Row i of a rotation is axis i of the crop, as the frame of the message has it.
        let axis = |i: usize| back(to_frame, [to_crop[i][0], to_crop[i][1], to_crop[i][2]]);
        let x = axis(0);
        let y = axis(1);
        CropToMap {
            rows: std::array::from_fn(|i| [x[i], y[i], origin[i]]),
            resolution_m: view.resolution_m,
            size: [view.width, view.height],
        }
    }

    /// The index of the cell of the map that this point of the crop is in \[m\]; `None` outside of the map.
    pub fn cell(&self, x: f64, y: f64) -> Option<usize> {
        let along = |i: usize| {
            let [of_x, of_y, offset] = self.rows[i];
            let cells = ((of_x * x + of_y * y) + offset) / self.resolution_m;
            let cell = cells.floor();
            // False for NaN as well.
            (cell >= 0.0 && cell < self.size[i] as f64).then_some(cell as usize)
        };
        Some(along(1)? * self.size[0] + along(0)?)
    }
}
