use super::*;

#[test]
fn large_rows_are_chunks_and_small_rows_share_one() {
    let column =
        |size: usize| Column::new("a".into(), Element::Uint8, "tick", &[("a.x".to_owned(), size)]);
    let sizes = |size| (column(size).chunk_rows(), column(size).shard_chunks());
    let Sizes { large_row, chunk, shard } = Sizes::default();
    assert_eq!(sizes(large_row), (1, 1024));
    assert_eq!(sizes(large_row - 1), (4, 1024));
    assert_eq!(sizes(300_000), (1, 128));
    assert_eq!(sizes(shard + 1), (1, 1));
    assert_eq!(sizes(1), (chunk, 1024));
}
