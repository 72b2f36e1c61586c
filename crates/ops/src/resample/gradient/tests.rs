use super::*;
use crate::align::{AlignRule, Fill};
use crate::dtype::DType;
use crate::random::Random;
use crate::resample::{BatchStream, Division, batch};

fn between(random: &mut Random, low: usize, high: usize) -> usize {
    low + random.below((high - low + 1) as u64) as usize
}

fn f32s(bytes: &[u8]) -> Vec<f64> {
    bytes.as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect()
}

/// The weights of all rows, found by resampling rows of the unit matrix, in f64.
fn dense(spec: &BatchSpec, input: &BatchInput<'_>, rows: usize) -> Vec<f64> {
    let unit: Vec<u8> = (0..rows * rows)
        .flat_map(|i| f32::from(u8::from(i / rows == i % rows)).to_le_bytes())
        .collect();
    let mut spec = spec.clone();
    spec.streams[0].lanes = vec![Lane::Linear; rows];
    f32s(&batch::fuse(&spec, &BatchInput { rows: vec![&unit], ..input.clone() }).data)
}

#[test]
fn the_gradient_is_the_product_with_the_transposed_weights() {
    for case in 0..60 {
        let mut random = Random::new(case);
        let rows = between(&mut random, 1, 40);
        let targets = between(&mut random, 0, 60);
        let dim = between(&mut random, 1, 9);
        let cut = |random: &mut Random, all| vec![0, between(random, 0, all) as i64, all as i64];
        let row_offsets = cut(&mut random, rows);
        let target_offsets = cut(&mut random, targets);
        let stamps: Vec<i64> = (0..rows as i64).map(|i| 100 * i).collect();
        let end = 100 * rows + 50;
        let times: Vec<i64> =
            (0..targets).map(|_| between(&mut random, 0, end) as i64 - 20).collect();
        let fill = [Fill::Zero, Fill::Last, Fill::First][between(&mut random, 0, 2)];
        let rule =
            AlignRule { strategy: Strategy::Linear, max_age_ns: 30, max_gap_ns: i64::MAX, fill };
        let stream = BatchStream {
            rule,
            rows: Division::Offsets(rows),
            dtype: DType::F32,
            lanes: vec![Lane::Linear; dim],
        };
        let steps = Division::Offsets(targets);
        let spec = BatchSpec { episodes: 2, steps, dtype: DType::F32, streams: vec![stream] };
        let input = BatchInput {
            rows: vec![&[]],
            stamps: vec![&stamps],
            row_offsets: vec![&row_offsets],
            targets: &times,
            target_offsets: &target_offsets,
        };
        let of_output: Vec<u8> =
            (0..targets * dim).flat_map(|_| random.float(-2.0, 2.0).to_le_bytes()).collect();
        let mut found = vec![0xAB; rows * dim * 4];
        of_rows(&spec, &input, 0, &of_output, &mut found, 2);
        let weights = dense(&spec, &input, rows);
        let values = f32s(&of_output);
        for (at, found) in f32s(&found).into_iter().enumerate() {
            let row = at / dim;
            let column = at % dim;
            let expected: f64 = (0..targets)
                .map(|target| weights[target * rows + row] * values[target * dim + column])
                .sum();
            assert!((found - expected).abs() < 1e-5, "case {case}: {found} {expected}");
        }
    }
}

#[test]
fn other_strategies_and_lanes_have_none() {
    let rule = |strategy| AlignRule { strategy, max_age_ns: 0, max_gap_ns: 0, fill: Fill::Zero };
    let spec = |strategy, lane| {
        let rows = Division::Even(1);
        let rule = rule(strategy);
        let stream = BatchStream { rule, rows, dtype: DType::F32, lanes: vec![lane; 4] };
        let steps = Division::Even(1);
        BatchSpec { episodes: 1, steps, dtype: DType::F32, streams: vec![stream] }
    };
    assert_eq!(spec(Strategy::Linear, Lane::Linear).gradient_fault(), None);
    for (strategy, lane, word) in [
        (Strategy::Hold, Lane::Linear, "hold"),
        (Strategy::Slerp, Lane::Linear, "slerp"),
        (Strategy::Linear, Lane::Angular, "linear lanes"),
        (Strategy::Linear, Lane::Held, "linear lanes"),
    ] {
        let fault = spec(strategy, lane).gradient_fault().unwrap();
        assert!(fault.contains(word), "{fault}");
    }
}
