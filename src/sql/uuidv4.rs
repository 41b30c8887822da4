//! The SQL function of UUIDv4.

use id_gen_core::uuid4;

use crate::generate::test_server;
use crate::os::random;
use crate::pg::fmgr::{self, UuidPlace};
use crate::sql::function::sql_function;

sql_function! {
    /// `uuidv4() → uuid`
    fn uuidv4(_call)
    fast {
        let place = UuidPlace::allocate();
        Some(place.put(uuid4::of(random::seeded_bits()?, random::seeded_bits()?)))
    }
    {
        test_server::begin()?;
        Ok(fmgr::uuid(uuid4::of(random::bits()?, random::bits()?)))
    }
}
