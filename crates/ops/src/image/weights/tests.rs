use proptest::prelude::*;

use super::*;
use crate::image::memory::most_weights;
use crate::image::{Fit, Resize};

proptest! {
    #[test]
    fn weights_read_what_is_there_and_fit_the_memory(
        image in (1usize..2000, 1usize..900), row in (1usize..300, 1usize..300),
        filter in prop::sample::select(&Filter::ALL[..]),
        fit in prop::sample::select(&[Fit::Stretch, Fit::CoverCenter][..]),
    ) {
        let resize = Resize { filter, fit, ..Resize::to(row.0, row.1) };
        let placement = Placement::new(&resize, image.0, image.1);
        let inputs = [image.0, image.1];
        let outputs = [row.0, row.1];
        let check = |axis: usize, taps: &[Range<usize>], read: &[u32], sums: Vec<f64>| {
            prop_assert_eq!(taps.len(), outputs[axis]);
            prop_assert!(read.len() <= most_weights(inputs[axis], outputs[axis]));
            prop_assert!(read.iter().all(|input| (*input as usize) < inputs[axis]));
            prop_assert!(read.len() == taps.last().unwrap().end);
            prop_assert!(sums.iter().all(|sum| (sum - sums[0]).abs() < 2e-3 * sums[0]));
            Ok(())
        };
        match Kernel::new(filter, &placement) {
            Kernel::Bytes(axes) | Kernel::VerticalFirst(axes) => {
                for (axis, outputs) in axes.iter().zip(outputs) {
                    prop_assert_eq!(axis.outputs(), outputs);
                }
            }
            Kernel::Linear(weights) => for (axis, of) in weights.iter().enumerate() {
                let sum = |tap: &Range<usize>| of.values[tap.clone()].iter().sum::<i32>() as f64;
                check(axis, &of.taps, &of.inputs, of.taps.iter().map(sum).collect())?;
            },
            Kernel::Area(weights, _) | Kernel::Torch(weights) => for (axis, of) in weights.iter().enumerate() {
                let sum = |tap: &Range<usize>| of.values[tap.clone()].iter().sum::<f32>() as f64;
                check(axis, &of.taps, &of.inputs, of.taps.iter().map(sum).collect())?;
            },
        }
    }
}
