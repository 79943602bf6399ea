//! Compiles the kernels of this crate; what it uses for that does not reach the program.

mod bodies;

use fusewright::aot::BuildScript;

fn main() -> Result<(), fusewright::Error> {
    let mut script = BuildScript::new()?;
    script.kernel("add_rms_norm_fp8_token", bodies::add_rms_norm_fp8_token)?;
    script.kernel("silu_mul_fp8_group128", bodies::silu_mul_fp8_group128)?;
    script.kernel("add_rms_norm_cache", bodies::add_rms_norm_cache)?;
    // For whatever processor the program runs on; this needs LLVM where it is built.
    #[cfg(all(feature = "llvm", target_arch = "x86_64"))]
    {
        script = script.for_levels(&fusewright::Level::ALL)?;
        script.kernel("add_rms_norm_fp8_token_of_levels", bodies::add_rms_norm_fp8_token)?;
    }
    script.finish()
}
