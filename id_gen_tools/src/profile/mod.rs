//! What the IDs of a column tell about how they were made: `id_gen_profile()`.

mod functions;
mod refusal;
mod report;
mod request;
mod row_stream;
mod snowflakes;
mod source;
mod uuids;
