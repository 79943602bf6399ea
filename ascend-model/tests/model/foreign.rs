//! A kernel that others wrote, unmodified: it compiles against the model, finds what is not finite, and the model says
//! where it leans on luck. `cargo run -p xtask -- foreign-kernel` fetches it. SIMULATED.

use std::path::Path;

use crate::support::{self, A2, f32_bytes, values};
use fusewright_ascend_model::{Argument, Error, Kernel, Options, Source};
use half::{bf16, f16};

/// What the kernel does that the documentation does not allow, or that it leaves to a compiler that adds barriers.
const KNOWN: [&str; 6] = [
    // The tail is zeroed by the vector pipe, then loaded over with no flag between, then read with no barrier between.
    "DataCopyPad: race: ",
    "ShiftLeft: race: ",
    // A buffer is zeroed and converted into, with no barrier between.
    "Cast: race: ",
    // The result is a scalar store that is copied out with no flag between.
    "DataCopy: race: ",
    // Working memory is not given back where it stops early.
    "TPipe: a tensor of queue",
    // All cores write the one result.
    "on another core",
];

/// Numbers as bytes of a type.
type Encode = fn(&[f32]) -> Vec<u8>;

/// How elements are dealt to cores and loops, as the kernel's host side does: all but the last core have `per_core`.
struct Tiling {
    dtype: u32,
    per_core: u32,
    per_loop: u32,
    vector: u32,
}

impl Tiling {
    /// Loops of one core's elements: how many elements a loop has, the rounded last one, loops, the last one's, padding.
    fn part(&self, elements: u32, block: u32) -> [u32; 5] {
        let loops = elements.div_ceil(self.per_loop);
        let real = elements - (loops - 1) * self.per_loop;
        [self.per_loop, real.next_multiple_of(self.vector), loops, real, real.next_multiple_of(block) - real]
    }

    fn words(&self, elements: u32, cores: u32, size: u32) -> Vec<u32> {
        let last = elements - (cores - 1) * self.per_core;
        let mut words = vec![self.per_core];
        words.extend(self.part(self.per_core, 32 / size));
        words.push(last);
        words.extend(self.part(last, 32 / size));
        words.extend([1, self.dtype]);
        words
    }
}

/// Whether the kernel finds something that is not finite, and what the model says.
fn found(kernel: &Kernel, x: &[u8], tiling: &[u32], cores: u32) -> (bool, String) {
    let tiling: Vec<u8> = tiling.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut result = vec![0; 32];
    let workspace = [0; 32];
    let arguments =
        &mut [Argument::In(x), Argument::InOut(&mut result), Argument::In(&workspace), Argument::In(&tiling)];
    let said = match kernel.launch(cores, arguments, &[], &Options::default()) {
        Ok(_) => String::new(),
        Err(Error::Findings { report, .. }) => report,
        Err(error) => panic!("{error}"),
    };
    (result[0] != 0, said)
}

#[test]
fn a_kernel_of_others_finds_what_is_not_finite() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(xtask::foreign::KEPT);
    let Ok(text) = std::fs::read_to_string(kept) else {
        return xtask::skipped::skipped("a kernel of others on the host model", xtask::foreign::MISSING);
    };
    let Some(model) = support::model() else { return };
    let source = Source { name: "all_finite.cpp", text: &text };
    let object = model.compile(&[source], &[], A2).unwrap_or_else(|e| panic!("{e}"));
    let kernel = model.load(&object).and_then(|k| k.kernel("all_finite")).unwrap_or_else(|e| panic!("{e}"));
    let types: [(u32, u32, Encode); 3] = [
        (0, 4, f32_bytes),
        (1, 2, |v| v.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect()),
        (27, 2, |v| v.iter().flat_map(|v| bf16::from_f32(*v).to_le_bytes()).collect()),
    ];
    let mut runs = 0;
    for (dtype, size, encode) in types {
        let tiling = Tiling { dtype, per_core: 3072, per_loop: 2048, vector: 256 / size };
        for (elements, cores) in [(3000u32, 1), (2048, 1), (100, 1), (8100, 3), (6144, 2)] {
            let per_core = if cores == 1 { elements } else { tiling.per_core };
            let words = Tiling { per_core, ..tiling }.words(elements, cores, size);
            let mut x = values(u64::from(elements), elements as usize);
            for bad in [
                None,
                Some((0, f32::INFINITY)),
                Some((elements - 1, f32::NAN)),
                Some((elements / 2, f32::NEG_INFINITY)),
            ] {
                let kept = bad.map(|(at, value)| std::mem::replace(&mut x[at as usize], value));
                let (result, said) = found(&kernel, &encode(&x), &words, cores);
                assert_eq!(result, bad.is_some(), "type {dtype}, {elements} elements, {cores} cores, {bad:?}: {said}");
                for line in said.lines() {
                    assert!(KNOWN.iter().any(|known| line.contains(known)), "{line}");
                }
                if let (Some((at, _)), Some(kept)) = (bad, kept) {
                    x[at as usize] = kept;
                }
                runs += 1;
            }
        }
    }
    assert_eq!(runs, 60);
}
