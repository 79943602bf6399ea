//! The command as scripts see it: exit codes, JSON keys, files, and what errors name.

mod bench;
mod book;
mod cache;
mod compile;
mod doctor;
mod dump;
mod explain;
mod hostile;
mod idle;
mod memory;
mod npu;
mod opt;
mod overriding;
mod pages;
mod patterns;
mod refusals;
mod run;
mod schedules;
mod support;
