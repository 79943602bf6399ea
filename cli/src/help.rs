//! What follows the options in the help of each command: examples and exit statuses.

/// What the statuses of every command mean.
pub const EXIT: &str = "\
Exit status: 0 done, 1 a check or an expectation failed, 2 bad input, 3 a target, a driver, a tool or memory is not available";

/// Of `run`.
pub const RUN: &str = "\
Examples:
  fusewright run model.pt2                                   on inputs made from seed 1, against the reference
  fusewright run model.pt2 --rows 64 --seed 7                on other inputs
  fusewright run model.pt2 --check cases.safetensors         on in0…, against out0…
  fusewright run model.pt2 --check in.safetensors --out out.safetensors
                                                             on in0… alone: nothing is compared
  fusewright run model.pt2 --target cuda --device 1          on the second NVIDIA GPU

Exit status: 0 done, 1 a result is wrong, 2 bad input, 3 the target does not run here, or memory is short";

/// Of `explain`.
pub const EXPLAIN: &str = "\
Examples:
  fusewright explain model.pt2
  fusewright explain model.pt2 --target ascend:950           and which kernels that chip refuses
  fusewright explain model.pt2 --html page.html              as one page
  fusewright explain model.pt2 --svg picture.svg             as a picture: ops, and the kernels they become
  fusewright explain model.pt2 --expect rms_norm=1 --expect rope=0

Exit status: 0 done, 1 an expectation failed, 2 bad input, 3 the target is not in this build";

/// Of `compile`.
pub const COMPILE: &str = "\
Examples:
  fusewright compile model.pt2 --target cpu -o bundle
  fusewright compile model.pt2 --target cpu,ascend:910b1 -o bundle
                                                             with a README that says how to build and launch the latter

Exit status: 0 done, 2 bad input or a folder that cannot be written, 3 a target is not in this build";

/// Of `bench`.
pub const BENCH: &str = "\
Examples:
  fusewright bench model.pt2 --rows 1,32                     the regions of a model
  fusewright bench model.pt2 --target cuda --rows 1,32       the whole model as a CUDA graph, and its kernels alone
  fusewright bench --suite kernels --list                    what the suite holds
  fusewright bench --suite kernels --compare inductor.json   against figures that benches/bench_cpu.py wrote
  fusewright bench --suite kernels --target cuda --out gpu.json
                                                             on a GPU; goes on where an earlier run ended
  fusewright bench --suite kernels --target cuda --from gpu.json --html page.html
                                                             such figures as a page, without a GPU
  fusewright bench --suite kernels --target cuda --tune --out gpu.schedules
                                                             faster schedules, for --schedules gpu.schedules
  fusewright bench --suite launch --target cuda              what launches cost the host beyond the driver's call
  fusewright bench --suite kinds --target cuda               one kernel of each kind of schedule, for sanitizers
  fusewright bench model.pt2 --suite compile --layers 64     how long compiling takes
  fusewright bench model.pt2 --target ascend:910b1 --estimate
                                                             what its kernels move and compute; never measured
  fusewright bench --suite matrix --check --sample 300       combinations of ops, run every way
  fusewright bench --suite matrix --against-unfused --sample 100   fused against op by op, and what is slower

Exit status: 0 done, 1 a combination failed, 2 bad input, 3 the target does not run here, or memory is short";

/// Of `opt`.
pub const OPT: &str = "\
Examples:
  fusewright opt graph.fw                                    verify, and print in the form that is read back
  fusewright opt graph.fw pass rewrite                       after one pass
  fusewright opt graph.fw regions                            what shares a kernel
  fusewright opt graph.fw lower --target ascend              Kernel IR, as lowered and as expanded
  fusewright opt kernel.fw emit --target cuda:sm_90          every stage of its code
  fusewright opt graph.fw run --dim s=2 --seed 7             interpret on made inputs
  fusewright opt kernel.fw diff                              interpreters against machine code
  fusewright opt graph.fw reduce --test ./still_fails.sh     a smaller graph that fails alike
  fusewright opt graph.fw bisect --test ./still_right.sh     the change of a pass after which the test fails

Exit status: 0 done, 1 a comparison or the test of bisect failed, 2 bad input, 3 the target is not in this build";

/// Of `cache`.
pub const CACHE: &str = "\
Examples:
  fusewright cache                                           the kernels that are kept, and how much room they take
  fusewright cache path                                      where: FUSEWRIGHT_CACHE_DIR, or else the user's folder
  fusewright cache verify                                    whether all would be used; bad ones are compiled anew

Exit status: 0 done, 1 an entry is wrong, 3 the folder cannot be used";

/// Of the listings.
pub const LISTS: &str = "Exit status: 0";
