//! Values that occur more than once, found where all come in order.

/// The most that are kept as examples.
pub const EXAMPLES: usize = 5;

/// What was found so far.
#[derive(Clone, Debug)]
pub struct Duplicates<T> {
    previous: Option<T>,
    /// How often the previous one came.
    times: u64,
    /// How many values came more than once.
    pub values: u64,
    /// How many rows are one too many.
    pub surplus: u64,
    /// The first such values, and how often each came.
    pub examples: Vec<(T, u64)>,
}

impl<T> Default for Duplicates<T> {
    fn default() -> Duplicates<T> {
        Duplicates { previous: None, times: 0, values: 0, surplus: 0, examples: Vec::new() }
    }
}

impl<T: Copy + Eq> Duplicates<T> {
    /// The next value. Equal ones have to follow each other.
    #[inline]
    pub fn note(&mut self, value: T) {
        if self.previous != Some(value) {
            self.previous = Some(value);
            self.times = 1;
            return;
        }
        self.times += 1;
        self.surplus += 1;
        if self.times == 2 {
            self.values += 1;
            if self.examples.len() < EXAMPLES {
                self.examples.push((value, 2));
            }
        } else if let Some((example, times)) = self.examples.last_mut()
            && *example == value
        {
            *times = self.times;
        }
    }
}
