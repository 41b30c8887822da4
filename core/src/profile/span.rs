//! How many there are of something, and from when until when.

/// The first and last of the Unix milliseconds that were noted, and how many there were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// How many.
    pub count: u64,
    /// The earliest; without meaning where there are none.
    pub first_ms: i64,
    /// The latest; without meaning where there are none.
    pub last_ms: i64,
}

impl Span {
    /// Nothing noted yet.
    pub const EMPTY: Span = Span { count: 0, first_ms: i64::MAX, last_ms: i64::MIN };

    /// Notes a time.
    #[inline]
    pub fn note(&mut self, unix_ms: i64) {
        self.count += 1;
        self.first_ms = self.first_ms.min(unix_ms);
        self.last_ms = self.last_ms.max(unix_ms);
    }

    /// The first and last time, if there are any.
    pub const fn times(&self) -> Option<(i64, i64)> {
        if self.count == 0 { None } else { Some((self.first_ms, self.last_ms)) }
    }
}
