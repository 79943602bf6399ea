//! Code for NVIDIA GPUs: made and kept, looked at as NVIDIA's assembler makes it, and run where there is a GPU; and what
//! exported models become on all targets that do not run here.

mod assembled;
mod device;
mod machine_code;
mod targets;
