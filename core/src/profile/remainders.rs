//! How evenly `id % n` spreads IDs over `n` shards.
//!
//! Remainders of three numbers are counted; those of their divisors follow from them.

/// What is counted: 2^8, 2 * 2 * 3 * 7 and 2^2 * 5^2.
const COUNTED: [usize; 3] = [256, 84, 100];

/// The numbers of shards that are reported: each divides one of those counted.
pub const SHARDS: [u32; 11] = [2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 32];

/// Below so many IDs for each shard, chance alone is uneven.
const ENOUGH: u64 = 100;

/// Counts of remainders.
#[derive(Clone, Debug)]
pub struct Remainders {
    total: u64,
    of_256: Box<[u64; COUNTED[0]]>,
    of_84: Box<[u64; COUNTED[1]]>,
    of_100: Box<[u64; COUNTED[2]]>,
}

/// How `id % n` spreads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// How many shards.
    pub shards: u32,
    /// The fullest of them.
    pub fullest: u32,
    /// How many IDs that one has.
    pub count: u64,
    /// Of how many in all.
    pub total: u64,
}

impl Default for Remainders {
    fn default() -> Remainders {
        Remainders {
            total: 0,
            of_256: Box::new([0; COUNTED[0]]),
            of_84: Box::new([0; COUNTED[1]]),
            of_100: Box::new([0; COUNTED[2]]),
        }
    }
}

impl Remainders {
    /// Counts an ID. It must not be negative, as `%` of a negative number is another thing in each language.
    #[inline]
    pub fn note(&mut self, id: u64) {
        self.total += 1;
        self.of_256[(id % COUNTED[0] as u64) as usize] += 1;
        self.of_84[(id % COUNTED[1] as u64) as usize] += 1;
        self.of_100[(id % COUNTED[2] as u64) as usize] += 1;
    }

    /// How they spread over each number of shards; nothing where no ID was counted.
    pub fn spreads(&self) -> Vec<Spread> {
        if self.total == 0 {
            return Vec::new();
        }
        SHARDS.into_iter().filter_map(|shards| self.spread(shards)).collect()
    }

    fn spread(&self, shards: u32) -> Option<Spread> {
        let counted: [&[u64]; 3] = [&*self.of_256, &*self.of_84, &*self.of_100];
        let counts =
            counted.into_iter().find(|counts| counts.len().is_multiple_of(shards as usize))?;
        let shard =
            |first| counts.iter().skip(first as usize).step_by(shards as usize).sum::<u64>();
        let (count, fullest) = (0..shards)
            .map(|first| (shard(first), first))
            .max_by_key(|&(count, first)| (count, std::cmp::Reverse(first)))?;
        Some(Spread { shards, fullest, count, total: self.total })
    }
}

impl Spread {
    /// How many times its even share the fullest shard has.
    pub fn excess(&self) -> f64 {
        self.count as f64 * f64::from(self.shards) / self.total as f64
    }

    /// Whether the fullest shard has over a quarter more than its share, and more than chance explains: five standard
    /// deviations.
    pub fn is_uneven(&self) -> bool {
        let even = self.total as f64 / f64::from(self.shards);
        even >= ENOUGH as f64 && self.count as f64 > 1.25 * even + 5.0 * even.sqrt()
    }
}
