//! Which points are left out: those too close or too far, those outside of boxes, and the robot itself.

use super::spec::IDENTITY;

/// Which points are left out. The default leaves out none.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Filter {
    /// Least distance from the sensor \[m\].
    pub min_range_m: Option<f32>,
    /// Greatest distance from the sensor \[m\].
    pub max_range_m: Option<f32>,
    /// Shapes around points that are kept or left out.
    pub shapes: Vec<Shape>,
}

/// A shape, and the action for the points in it. Its surface is part of it.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Shape {
    /// The action for the points in it.
    pub action: Action,
    /// Its form, in its own frame.
    pub form: Form,
    /// The frame in which its pose is given.
    pub frame: ShapeFrame,
    /// Takes a point of that frame to the shape's own: `[R | t]` row by row \[m\].
    pub t_shape_frame: [[f64; 4]; 3],
}

/// The action for the points in a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Only points in such a shape are kept; if there are several, in any of them.
    Keep,
    /// They are left out.
    Remove,
    /// They are on the robot, and left out.
    Robot,
}

/// The form of a shape.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// A box between two corners \[m\].
    Box {
        /// Lower corner.
        min_m: [f32; 3],
        /// Upper corner.
        max_m: [f32; 3],
    },
    /// A sphere around the origin.
    Sphere {
        /// Its radius \[m\].
        radius_m: f32,
    },
}

/// The frame in which the pose of a shape is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShapeFrame {
    /// The base frame.
    Base,
    /// The frame of the cloud.
    Sensor,
    /// A frame of this name, which the tree of frames places at the stamp of the cloud.
    Tf(String),
}

impl ShapeFrame {
    /// Its name, if the tree of frames places it.
    fn of_tree(&self) -> Option<&str> {
        match self {
            ShapeFrame::Tf(name) => Some(name),
            ShapeFrame::Base | ShapeFrame::Sensor => None,
        }
    }
}

/// As in configurations.
impl serde::Serialize for ShapeFrame {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            ShapeFrame::Base => "base",
            ShapeFrame::Sensor => "sensor",
            ShapeFrame::Tf(name) => name,
        })
    }
}

impl Filter {
    /// True if the filter takes all points.
    pub fn is_empty(&self) -> bool {
        self.min_range_m.is_none() && self.max_range_m.is_none() && self.shapes.is_empty()
    }

    /// The frames of the tree that its shapes are attached to, each once, with the number of its first
    /// shape.
    pub fn frames(&self) -> impl Iterator<Item = (usize, &str)> {
        self.shapes.iter().enumerate().filter_map(|(at, shape)| {
            let name = shape.frame.of_tree()?;
            let earlier = self.shapes[..at].iter();
            let repeated =
                earlier.map(|shape| shape.frame.of_tree()).any(|known| known == Some(name));
            (!repeated).then_some((at, name))
        })
    }

    /// The key of a shape within `cloud`: `crop[0]`, `self_filter[2]`.
    pub fn key(&self, shape: usize) -> String {
        let robot = |shape: &Shape| shape.action == Action::Robot;
        let is_robot = self.shapes.get(shape).is_some_and(robot);
        let before = self.shapes.iter().take(shape);
        let place = before.filter(|earlier| robot(earlier) == is_robot).count();
        format!("{}[{place}]", if is_robot { "self_filter" } else { "crop" })
    }

    /// Transforms of the shapes for a sensor at `t_base_sensor`: each takes a point of the cloud to its shape.
    /// `t_frame_base` takes a point of the base frame to a frame of the tree. If it knows a frame not, there are fewer
    /// transforms than shapes, and a voxelizer refuses the cloud.
    pub fn place(
        &self,
        t_base_sensor: &[[f64; 4]; 3],
        t_frame_base: impl Fn(&str) -> Option<[[f64; 4]; 3]>,
    ) -> Vec<[[f64; 4]; 3]> {
        let place = |shape: &Shape| match &shape.frame {
            ShapeFrame::Sensor => Some(shape.t_shape_frame),
            ShapeFrame::Base => Some(after(&shape.t_shape_frame, t_base_sensor)),
            ShapeFrame::Tf(name) => {
                let t_frame_sensor = after(&t_frame_base(name)?, t_base_sensor);
                Some(after(&shape.t_shape_frame, &t_frame_sensor))
            }
        };
        self.shapes.iter().filter_map(place).collect()
    }
}

/// First `b`, then `a`.
pub fn after(a: &[[f64; 4]; 3], b: &[[f64; 4]; 3]) -> [[f64; 4]; 3] {
    let mut product = IDENTITY;
    for (row, of_a) in product.iter_mut().zip(a) {
        for (column, out) in row.iter_mut().enumerate() {
            let turned = (of_a[0] * b[0][column] + of_a[1] * b[1][column]) + of_a[2] * b[2][column];
            *out = if column == 3 { turned + of_a[3] } else { turned };
        }
    }
    product
}

/// The transform the other way, of one whose first three columns are a rotation.
pub fn inverse(t: &[[f64; 4]; 3]) -> [[f64; 4]; 3] {
    let mut inverse = IDENTITY;
    for (i, row) in inverse.iter_mut().enumerate() {
        for (j, out) in row.iter_mut().take(3).enumerate() {
            *out = t[j][i];
        }
        row[3] = -((t[0][i] * t[0][3] + t[1][i] * t[1][3]) + t[2][i] * t[2][3]);
    }
    inverse
}

#[cfg(test)]
mod tests;
