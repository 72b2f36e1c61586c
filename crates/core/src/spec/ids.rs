//! Ids of the parts of a configuration: positions in lists.
//!
//! Each list has its own type of id, because the parts do not match one to one. An input feeds any
//! number of rings. A stream has one ring or several, and one segment or several.

/// Declares a position in a list as a type.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(usize);

        impl $name {
            /// The one at position `index` of its list.
            pub const fn new(index: usize) -> Self {
                $name(index)
            }

            /// Its position.
            pub const fn index(self) -> usize {
                self.0
            }
        }
    };
}

id! {
    /// An input: a subscription in [`Config::inputs`](super::Config::inputs).
    InputId
}
id! {
    /// A stream in [`Config::streams`](super::Config::streams).
    StreamId
}
id! {
    /// A ring. One list holds the rings of all streams; each stream has at least one.
    RingId
}
id! {
    /// A segment of the packed tensor, in the order of
    /// [`Layout::segments`](crate::layout::Layout::segments).
    SegmentId
}
