//! Pose of a sensor: a translation and a rotation.

use nalgebra::{Matrix3, Quaternion, Rotation3, UnitQuaternion};

use super::check::{Check, Range};
use super::raw::RawTransform;

/// How far the length of a quaternion may be from 1.
const MAX_NORM_ERROR: f64 = 1e-3;

/// `[R | t]`, row by row. Default: identity.
pub(super) fn transform(
    check: &mut Check<'_>,
    key: &str,
    raw: RawTransform,
) -> Option<[[f64; 4]; 3]> {
    let translation = match raw.translation_m {
        Some(values) => check.numbers::<3>(&format!("{key}.translation_m"), &values, Range::ANY_M),
        None => Some([0.0; 3]),
    };
    let rotation = match (raw.rotation_xyzw, raw.rotation_rpy_deg) {
        (None, None) => Some(Matrix3::identity()),
        (Some(xyzw), None) => from_quaternion(check, &format!("{key}.rotation_xyzw"), &xyzw),
        (None, Some(rpy)) => from_rpy(check, &format!("{key}.rotation_rpy_deg"), &rpy),
        (Some(_), Some(_)) => {
            let expected = "only one of rotation_xyzw and rotation_rpy_deg";
            check.fail_found(&format!("{key}.rotation_rpy_deg"), expected, "both");
            None
        }
    };
    let rotation = rotation?;
    let translation = translation?;
    let row = |i: usize| [rotation[(i, 0)], rotation[(i, 1)], rotation[(i, 2)], translation[i]];
    Some([row(0), row(1), row(2)])
}

fn from_quaternion(check: &mut Check<'_>, key: &str, xyzw: &[f64]) -> Option<Matrix3<f64>> {
    let [x, y, z, w] = check.numbers::<4>(key, xyzw, Range::from(-2.0, 2.0))?;
    let quaternion = Quaternion::new(w, x, y, z);
    let norm = quaternion.norm();
    if (norm - 1.0).abs() > MAX_NORM_ERROR {
        check.fail_found(key, "a quaternion [x, y, z, w] of length 1", format!("length {norm:.4}"));
        return None;
    }
    let unit = UnitQuaternion::from_quaternion(quaternion);
    Some(unit.to_rotation_matrix().into_inner())
}

/// Roll, pitch and yaw about the fixed axes x, y and z, in this order: URDF's `rpy`, in degrees.
fn from_rpy(check: &mut Check<'_>, key: &str, rpy_deg: &[f64]) -> Option<Matrix3<f64>> {
    let degrees = check.numbers::<3>(key, rpy_deg, Range::from(-360.0, 360.0))?;
    let [roll, pitch, yaw] = degrees.map(f64::to_radians);
    Some(Rotation3::from_euler_angles(roll, pitch, yaw).into_inner())
}
