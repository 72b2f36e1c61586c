//! `kernels/windows/`. Names are those of the other side, which says what they are.
#![allow(missing_docs)]

use super::resample::AlignRule;

numbers! { "windows::":
    /// Threads of a block.
    pub const THREADS: u32 = 128;
    /// Numbers of items that go with the launch itself.
    pub const WORDS: u32 = 448;
    pub const FEW_WORDS: u32 = 128;
    pub const SAMPLE_THREADS: u32 = 256;
    pub const VIEW_SERVED: u32 = 0;
    pub const VIEW_STRICT: u32 = 1;
    pub const VIEW_ALL: u32 = 2;
    pub const WHEN_ALL: u32 = 0;
    pub const WHEN_ANY: u32 = 1;
    pub const WHEN_LISTED: u32 = 2;
    pub const OPERATOR_AFFINE: u32 = 0;
    pub const OPERATOR_CLAMP: u32 = 1;
    pub const OPERATOR_UNWRAP: u32 = 2;
}

structs! { "windows::":
    /// The rows of a span.
    pub struct SpanRows { begin: u64, end: u64, }

    /// An operator on a value.
    pub struct Operator { a: f64, b: f64, c: f64, kind: u32, reserved: u32, }

    /// An element of a part.
    #[derive(Default)]
    pub struct Element {
        at: u32,
        rotation: u32,
        first_operator: u32,
        operators: u32,
        unwraps: u32,
        reserved: u32,
    }

    /// A ring.
    #[derive(Default)]
    pub struct Ring {
        rows: u64,
        coordinates: u64,
        count: u64,
        stamp_ns: u64,
        received_ns: u64,
        left_ns: u64,
        received_from: u64,
        left_until: u64,
        until_ns: u64,
        replaced: u64,
        until_next: u64,
        spans: u64,
        lanes: u64,
        places: u64,
        elements: u64,
        operators: u64,
        dtype: u32,
        row_len: u32,
        part_len: u32,
        unwraps: u32,
    }

    /// A stream.
    #[derive(Default)]
    pub struct Stream {
        rings: u64,
        offsets_ns: u64,
        rule: AlignRule,
        ring_count: u32,
        steps: u32,
        step_len: u32,
        dtype: u32,
        view: u32,
        present: u32,
        sparse: u32,
        coordinates: u32,
        inputs: u32,
        when: u32,
        needed: u32,
        chunk: u32,
        chunks: u32,
        tile: u32,
        tiles: u32,
        tasks: u32,
        within: u32,
        scaled: u32,
    }

    /// Windows that a launch writes.
    pub struct Windows {
        streams: u64,
        out: u64,
        numbers: u64,
        instants: u64,
        episodes: u64,
        epochs: u64,
        first_span: u64,
        span_epoch: u64,
        span_begin: u64,
        span_end: u64,
        stream_count: u32,
        windows: u32,
        tasks: u32,
        has_latency: u32,
        episode_count: u32,
        reserved: u32,
    }

    /// The parameter of `write_windows`.
    pub struct WithWords { job: Windows, words: [i64; WORDS as usize], }

    /// The parameter of `write_few_windows`.
    pub struct WithFewWords { job: Windows, words: [i64; FEW_WORDS as usize], }

    /// The parameter of `sample_windows`.
    pub struct Sample {
        taken: u64,
        items: u64,
        ends: u64,
        first_ns: u64,
        episodes: u64,
        epochs: u64,
        episode_ends: u64,
        chances: u64,
        seed: u64,
        period_ns: u64,
        count: u64,
        batches: u64,
        batch_size: u64,
        rank: u64,
        world: u64,
        range_count: u32,
        episode_count: u32,
        shuffle: u32,
        reserved: u32,
    }
}
