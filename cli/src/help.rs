//! What follows the options in the help of each command: examples and exit statuses.

/// What the statuses of every command mean.
pub const EXIT: &str = "\
Exit status: 0 done, 1 a check or an expectation failed, 2 bad input, 3 a target, a driver, a tool or memory is not available";

/// Of `run`.
pub const RUN: &str = "\
Examples:
  fusewright run model.pt2                                   inputs from seed 1, compared with the reference interpreter
  fusewright run model.pt2 --rows 64 --seed 7                other inputs
  fusewright run model.pt2 --check cases.safetensors         inputs in0…, compared with out0…
  fusewright run model.pt2 --check in.safetensors --out out.safetensors
                                                             inputs in0… alone: nothing is compared
  fusewright run model.pt2 --target cuda --device 1          on the second NVIDIA GPU

Exit status: 0 done, 1 a result is wrong, 2 bad input, 3 the target does not run here, or memory is short";

/// Of `explain`.
pub const EXPLAIN: &str = "\
Examples:
  fusewright explain model.pt2
  fusewright explain model.pt2 --target ascend:950           also the kernels that this chip refuses
  fusewright explain model.pt2 --html page.html              as one page
  fusewright explain model.pt2 --svg picture.svg             as a picture: ops, and the kernels that they become
  fusewright explain model.pt2 --expect rms_norm=1 --expect rope=0

Exit status: 0 done, 1 an expectation failed, 2 bad input, 3 the target is not in this build";

/// Of `compile`.
pub const COMPILE: &str = "\
Examples:
  fusewright compile model.pt2 --target cpu -o bundle
  fusewright compile model.pt2 --target cpu,ascend:910b1 -o bundle
                                                             for `ascend` with a README: how to build and launch

Exit status: 0 done, 2 bad input or a folder that cannot be written, 3 a target is not in this build";

/// Of `bench`.
pub const BENCH: &str = "\
Examples:
  fusewright bench model.pt2 --rows 1,32                     the regions of a model
  fusewright bench model.pt2 --target cuda --rows 1,32       a whole model as a CUDA graph, and its kernels alone
  fusewright bench --suite kernels --list                    the cases of the suite
  fusewright bench --suite kernels --compare inductor.json   compared with figures of benches/bench_cpu.py
  fusewright bench --suite kernels --target cuda --out gpu.json
                                                             on a GPU; goes on where an earlier run ended
  fusewright bench --suite kernels --target cuda --from gpu.json --html page.html
                                                             these figures as a page, without a GPU
  fusewright bench --suite kernels --target cuda --tune --out gpu.schedules
                                                             faster schedules, for --schedules gpu.schedules
  fusewright bench --suite launch --target cuda              the host's cost of a launch beyond the driver's call
  fusewright bench --suite kinds --target cuda               one kernel of each kind of schedule, for sanitizers
  fusewright bench model.pt2 --suite compile --layers 64     the time to compile 64 copies of a model
  fusewright bench model.pt2 --target ascend:910b1 --estimate
                                                             an estimate of its kernels; never measured
  fusewright bench --suite matrix --check --sample 300       300 combinations of ops, run every way there is
  fusewright bench --suite matrix --against-unfused --sample 100   fused against one kernel per op

Exit status: 0 done, 1 a combination failed, 2 bad input, 3 the target does not run here, or memory is short";

/// Of `opt`.
pub const OPT: &str = "\
Examples:
  fusewright opt graph.fw                                    verify, and print in the usual form
  fusewright opt graph.fw pass rewrite                       after one pass
  fusewright opt graph.fw regions                            the regions: ops that share a kernel
  fusewright opt graph.fw lower --target ascend              Kernel IR, as lowered and as expanded
  fusewright opt kernel.fw emit --target cuda:sm_90          every stage of its code
  fusewright opt graph.fw run --dim s=2 --seed 7             interpret on inputs made from a seed
  fusewright opt kernel.fw diff                              the interpreter of kernels against machine code
  fusewright opt graph.fw reduce --test ./still_fails.sh     a smaller graph that fails in the same way
  fusewright opt graph.fw bisect --test ./still_right.sh     the first change of a pass after which the test fails

Exit status: 0 done, 1 a comparison or the test of bisect failed, 2 bad input, 3 the target is not in this build";

/// Of `cache`.
pub const CACHE: &str = "\
Examples:
  fusewright cache                                           the kernels in the cache, and their size
  fusewright cache path                                      its folder
  fusewright cache verify                                    read and check all entries; bad ones are not used

Exit status: 0 done, 1 an entry is wrong, 3 the folder cannot be used";

/// Examples of `doctor`.
pub const DOCTOR: &str = "\
Examples:
  fusewright doctor                                          what to add to a report of a problem
  fusewright doctor --json                                   the same for programs

Exit status: 0 kernels compile and run on this processor, 1 they do not, or what a variable asks for is missing";

/// Of the listings.
pub const LISTS: &str = "Exit status: 0";
