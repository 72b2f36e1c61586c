use super::*;

fn spec(targets: usize, dims: &[usize]) -> BatchSpec {
    let rule = crate::align::AlignRule {
        strategy: Strategy::Hold,
        max_age_ns: 1,
        max_gap_ns: 1,
        fill: Fill::Zero,
    };
    let stream = |dim: &usize| BatchStream {
        rule,
        rows: Division::Even(1),
        dtype: DType::F32,
        lanes: vec![Lane::Linear; *dim],
    };
    let streams = dims.iter().map(stream).collect();
    BatchSpec { episodes: 1, steps: Division::Even(targets), dtype: DType::F32, streams }
}

#[test]
fn more_blocks_than_kernels_can_number_are_an_error() {
    let found =
        |targets, dims: &[usize]| launches(&spec(targets, dims), &vec![0; dims.len()], 1 << 18);
    // A block of 4096 packs of 4 elements takes one target; two of these streams are just too many.
    let targets = i32::MAX as usize;
    let dim = 16384;
    let parts = found(targets, &[dim]).unwrap();
    assert_eq!(parts[0].blocks, i32::MAX as u32);
    let error = found(targets, &[dim, dim]).err().unwrap().to_string();
    assert!(error.contains("thread blocks") && error.contains("4294967294"), "{error}");
    // Streams of several launches are counted each in its own.
    assert_eq!(found(targets / 4, &[dim; 8]).unwrap().len(), 2);
    let error = found(1 << 31, &[1]).err().unwrap().to_string();
    assert!(error.contains("at most 2147483647 targets"), "{error}");
}

#[test]
fn addresses_that_are_not_aligned_are_faults() {
    let spec = spec(1, &[4]);
    let fault_of = |rows: u64, stamps: u64, targets: u64, age_ns: u64, times| {
        let rows = &[rows][..];
        let stamps = &[stamps][..];
        BatchPointers {
            rows,
            stamps,
            row_offsets: &[0],
            targets,
            target_offsets: 0,
            data: 64,
            report: Some([3, age_ns]),
        }
        .fault(&spec, times)
    };
    let fault =
        |rows, stamps, targets, age_ns| fault_of(rows, stamps, targets, age_ns, Times::Nanos);
    assert_eq!(fault(16, 8, 8, 8), None);
    assert_eq!(fault_of(16, 12, 4, 8, Times::Seconds32), None);
    for (fault, word) in [
        (fault(8, 8, 8, 8), "rows"),
        (fault(16, 12, 8, 8), "stamps"),
        (fault_of(16, 12, 8, 8, Times::Seconds64), "stamps"),
        (fault_of(16, 12, 6, 8, Times::Seconds32), "targets"),
        (fault(16, 8, 3, 8), "targets"),
        (fault(16, 8, 8, 1), "ages"),
    ] {
        let fault = fault.unwrap();
        assert!(fault.starts_with(word), "{fault}");
    }
}
