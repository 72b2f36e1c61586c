use super::*;
use RowMemory::{Device as OnDevice, Mapped, Pinned as InPinned};

#[test]
fn budgets_are_for_all_that_is_placed() {
    let sizes = [(100, 10), (300, 10), (50, 10)].map(|(rows, index)| Size { rows, index });
    let found = |asked: &[Option<RowMemory>], left| place(&sizes, asked, left);
    assert_eq!(found(&[], [480, 0]), [OnDevice; 3]);
    assert_eq!(found(&[], [479, 300]), [OnDevice, InPinned, OnDevice]);
    // What finds rows counts.
    assert_eq!(found(&[], [59, 1000]), [InPinned; 3]);
    assert_eq!(found(&[], [60, 99]), [Mapped, Mapped, OnDevice]);
    // A stream that was placed takes its share before the smaller ones.
    let asked = [None, Some(OnDevice), None];
    assert_eq!(found(&asked, [370, 100]), [InPinned, OnDevice, OnDevice]);
    assert_eq!(found(&asked, [369, 100]), [Mapped, OnDevice, InPinned]);
    assert_eq!(found(&asked, [0, 0]), [Mapped, OnDevice, Mapped]);
    let asked = [None, Some(InPinned), None];
    assert_eq!(found(&asked, [69, 350]), [Mapped, InPinned, InPinned]);
    assert_eq!(found(&asked, [70, 350]), [Mapped, InPinned, OnDevice]);
    assert_eq!(found(&[Some(Mapped); 3], [1000; 2]), [Mapped; 3]);
}

#[test]
fn a_graph_repeats_only_what_is_on_the_device() {
    let items = DeviceItems::Device { windows: 2, episodes: 8, instants: 8, epochs: 0 };
    let request = |items, latency_ns| DeviceRequest::Device { items, latency_ns };
    assert!(request(items, &[]).is_replayable());
    assert!(!request(items, &[1, 2]).is_replayable());
    assert!(!request(DeviceItems::Host { spans: &[0], instants: &[0] }, &[]).is_replayable());
    let host = DeviceRequest::Host(WindowBatch { instants_ns: &[1; 3], ..WindowBatch::default() });
    assert!(!host.is_replayable());
    assert_eq!((host.windows(), request(items, &[]).windows()), (3, 2));
}
