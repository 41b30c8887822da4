//! Conversion of columns to snowflakes and UUIDs: `id_gen_convert_plan()` and `id_gen_convert_start()`.

mod column;
mod default_only;
mod functions;
mod goal;
mod online;
mod place;
mod planning;
mod refusal;
mod sequences;
mod step;
mod texts;
mod views;
