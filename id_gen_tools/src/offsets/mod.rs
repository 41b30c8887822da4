//! Dividing the sequences of a schema among several servers: `id_gen_offsets_*()`.

mod functions;
mod refusal;
mod sequences;
