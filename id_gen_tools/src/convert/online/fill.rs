//! A table whose old rows get their values, and how.

/// As the schema of the jobs has it (`sql/convert_job.sql`).
pub struct Fill {
    /// The table.
    pub table: String,
    /// What keeps new rows in step, before that.
    pub synchronize: Vec<String>,
    /// Which rows lack a value.
    pub pending: String,
    /// What gives it to them, unless it has to be looked for.
    pub assignment: Option<String>,
    /// If the new IDs have the time of their rows: the column that gets them, and the expression of the time.
    pub allotted: Option<(String, String)>,
    /// Which rows have a wrong value.
    pub mismatch: String,
    /// Which rows lack an old value after the switch.
    pub unreturned: String,
    /// Rows that have another old value than the row that they reference, after the switch.
    pub diverged: String,
    /// The assignment of that value.
    pub restoring: Option<String>,
}

impl Fill {
    /// Whether both can get their values at once.
    pub fn goes_with(&self, other: &Fill) -> bool {
        self.table == other.table
            && self.assignment.is_some()
            && other.assignment.is_some()
            && self.synchronize.is_empty() == other.synchronize.is_empty()
    }

    /// Makes them one.
    pub fn join(&mut self, other: Fill) {
        self.synchronize.extend(other.synchronize);
        for (own, others) in [
            (&mut self.pending, other.pending),
            (&mut self.mismatch, other.mismatch),
            (&mut self.unreturned, other.unreturned),
            (&mut self.diverged, other.diverged),
        ] {
            *own = format!("({own}) OR ({others})");
        }
        for (own, others) in
            [(&mut self.assignment, other.assignment), (&mut self.restoring, other.restoring)]
        {
            if let (Some(own), Some(others)) = (own, others) {
                own.push_str(&format!(", {others}"));
            }
        }
    }
}
