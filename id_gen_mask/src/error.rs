//! Why a call fails, in PostgreSQL's words.

pub use id_gen_base::call::error::CallError as Error;
