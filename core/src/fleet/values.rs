//! What a registry keeps of a fleet beside its numbers: a text for each shard and each ticket.
//!
//! | key | value |
//! | --- | --- |
//! | `/id_gen/<fleet>/s/<name>` | of a shard |
//! | `/id_gen/<fleet>/t/<name>` | of a ticket |
//!
//! What a value says is its kind's matter. All kinds have in common that a value is replaced as a whole, by a
//! compare-and-swap, and only while the fleet is still the one that the server knows.

use crate::fleet::store::{Keys, KeysError, SHARDS, Store, Unswapped};

/// What a value is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueKind {
    /// A logical shard.
    Shard,
    /// A counter.
    Ticket,
}

impl ValueKind {
    const fn folder(self) -> &'static str {
        match self {
            ValueKind::Shard => SHARDS,
            ValueKind::Ticket => "t/",
        }
    }
}

impl<S: Store> Keys<S> {
    /// The key of a value, as the store has it.
    pub fn value_key(&self, kind: ValueKind, name: &str) -> String {
        format!("{}{}{name}", self.prefix(), kind.folder())
    }

    /// All values of a kind by their names, in order, as of one moment.
    ///
    /// # Errors
    /// If the store has no answer.
    pub fn values(&mut self, kind: ValueKind) -> Result<Vec<(String, String)>, KeysError> {
        let prefix = self.value_key(kind, "");
        let found = self.store.list(&prefix)?;
        let name_of = |key: String| key.strip_prefix(&prefix).map(str::to_owned);
        Ok(found.into_iter().filter_map(|(key, value)| Some((name_of(key)?, value))).collect())
    }

    /// One value, if there is one.
    ///
    /// # Errors
    /// If the store has no answer.
    pub fn value(&mut self, kind: ValueKind, name: &str) -> Result<Option<String>, KeysError> {
        Ok(self.store.get(&self.value_key(kind, name))?)
    }

    /// Replaces a value if it is `expected` in all its bytes, `None` if there is none; otherwise returns what it is.
    ///
    /// # Errors
    /// If the store has no answer, where it may have been replaced nevertheless, or if the fleet is another one.
    pub fn swap_value(
        &mut self,
        kind: ValueKind,
        name: &str,
        expected: Option<&str>,
        new: &str,
    ) -> Result<Result<(), Option<String>>, KeysError> {
        let key = self.value_key(kind, name);
        Ok(self.swap_in_fleet(&key, expected, new, &[])?.map_err(|why| match why {
            Unswapped::Differs(found) => found,
            // No other key was asked for.
            Unswapped::Forbidden => None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::store::tests::fleet;

    #[test]
    fn a_value_is_swapped_for_what_it_is() {
        let mut keys = fleet();
        assert_eq!(keys.value(ValueKind::Shard, "7"), Ok(None));
        assert_eq!(keys.swap_value(ValueKind::Shard, "7", None, "a"), Ok(Ok(())));
        assert_eq!(
            keys.swap_value(ValueKind::Shard, "7", None, "b"),
            Ok(Err(Some("a".to_owned())))
        );
        assert_eq!(keys.swap_value(ValueKind::Shard, "7", Some("a"), "b"), Ok(Ok(())));
        assert_eq!(keys.value(ValueKind::Shard, "7"), Ok(Some("b".to_owned())));
    }

    #[test]
    fn kinds_do_not_meet_and_numbers_do_not_see_them() {
        let mut keys = fleet();
        for (kind, name) in [
            (ValueKind::Ticket, "shop/public.x"),
            (ValueKind::Shard, "7"),
            (ValueKind::Shard, "12"),
        ] {
            assert_eq!(keys.swap_value(kind, name, None, name), Ok(Ok(())));
        }
        let names = |found: Vec<(String, String)>| -> Vec<String> {
            found.into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names(keys.values(ValueKind::Shard).unwrap()), ["12", "7"]);
        assert_eq!(names(keys.values(ValueKind::Ticket).unwrap()), ["shop/public.x"]);
        assert_eq!(crate::fleet::Registry::list(&mut keys).unwrap().grants, vec![]);
    }

    #[test]
    fn a_fleet_that_is_gone_keeps_nothing() {
        let mut keys = fleet();
        keys.store.0.clear();
        assert_eq!(keys.swap_value(ValueKind::Ticket, "x", None, "1"), Err(KeysError::OtherFleet));
    }
}
