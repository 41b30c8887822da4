//! The busiest second and the longest pauses, found where times come in order.

/// How many pauses are kept.
pub const PAUSES: usize = 3;

const MS_PER_S: i64 = 1_000;

/// A stretch of time in which nothing was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The last time before it, in Unix milliseconds.
    pub from_ms: i64,
    /// The first time after it, in Unix milliseconds.
    pub to_ms: i64,
}

impl Pause {
    /// How long, in milliseconds.
    pub const fn length_ms(&self) -> i64 {
        self.to_ms - self.from_ms
    }
}

/// What was found so far.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    previous_ms: Option<i64>,
    second: i64,
    in_second: u64,
    busiest: Option<(i64, u64)>,
    pauses: Vec<Pause>,
}

impl Pace {
    /// The next time, in Unix milliseconds. It is never before the one before it.
    #[inline]
    pub fn note(&mut self, unix_ms: i64) {
        let second = unix_ms.div_euclid(MS_PER_S);
        if self.previous_ms.is_some() && second == self.second {
            self.in_second += 1;
        } else {
            self.end_second();
            (self.second, self.in_second) = (second, 1);
            if let Some(from_ms) = self.previous_ms {
                self.pause(Pause { from_ms, to_ms: unix_ms });
            }
        }
        self.previous_ms = Some(unix_ms);
    }

    /// The first millisecond of the second in which most were made, and how many; `None` if nothing was noted.
    pub fn busiest_second(&mut self) -> Option<(i64, u64)> {
        self.end_second();
        self.busiest.map(|(second, count)| (second * MS_PER_S, count))
    }

    /// The longest pauses, the longest first. Times of one second, or of two that follow each other, make none.
    pub fn pauses(&self) -> &[Pause] {
        &self.pauses
    }

    fn end_second(&mut self) {
        if self.in_second > self.busiest.map_or(0, |(_, count)| count) {
            self.busiest = Some((self.second, self.in_second));
        }
    }

    fn pause(&mut self, pause: Pause) {
        if pause.length_ms() < MS_PER_S {
            return;
        }
        let place = self.pauses.partition_point(|each| each.length_ms() >= pause.length_ms());
        if place < PAUSES {
            self.pauses.truncate(PAUSES - 1);
            self.pauses.insert(place, pause);
        }
    }
}
