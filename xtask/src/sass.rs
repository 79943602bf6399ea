//! Machine code of NVIDIA GPUs, from the disassembler's listing: how many instructions there are, and whether the assembler
//! made the one of which it is known that it is wrong.
//!
//! Of a packed product whose greatest magnitude with a constant zero is wanted, `ptxas` makes one packed instruction that
//! takes negative results for zeros (`HFMA2…RELU`). No kernel of this project wants packed arithmetic to do that, so each
//! such instruction is a wrong result.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use crate::ptxas;

/// What is known of one entry of a module without running it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// The most instructions that a thread runs, less those of functions that it calls, which are for operands out of
    /// range. A thread that leaves at once runs fewer.
    pub longest: u32,
    /// Whether some instructions may run more than once; they are counted once.
    pub loops: bool,
    /// Packed arithmetic that takes negative results for zeros.
    pub clamped: Vec<String>,
}

/// Assembles a PTX text into a file in `folder` and counts the instructions of each entry, beside what the assembler says.
///
/// # Errors
/// The tools' messages.
pub fn entries(
    tool: &Path,
    disassembler: &Path,
    ptx: &str,
    folder: &Path,
) -> Result<(ptxas::Report, Vec<Entry>), String> {
    let cubin = folder.join("kernel.cubin");
    let report = ptxas::assemble_into(tool, ptx, &cubin)?;
    let output = Command::new(disassembler).arg("-c").arg(&cubin).output();
    let output = output.map_err(|e| format!("{}: {e}", disassembler.display()))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok((report, count(&String::from_utf8_lossy(&output.stdout))))
}

/// An instruction: whether it is under a predicate, and its text.
type Instruction<'t> = (bool, &'t str);

/// Counts the sections `.text.NAME` of a listing.
fn count(listing: &str) -> Vec<Entry> {
    let sections = listing.split("\n\t.section\t.text.").skip(1);
    sections
        .map(|section| {
            let name = section.split([',', '\n']).next().unwrap_or_default().to_owned();
            let (mut code, mut labels) = (Vec::new(), HashMap::new());
            for line in section.lines().map(str::trim) {
                if let Some(instruction) = instruction(line) {
                    code.push(instruction);
                } else if let Some(label) = line.strip_suffix(':') {
                    labels.insert(label, code.len());
                }
            }
            let (longest, loops) = longest(&code, &labels);
            let clamped = code.iter().map(|(_, text)| *text).filter(|text| clamps(text)).map(str::to_owned).collect();
            Entry { name, longest, loops, clamped }
        })
        .collect()
}

/// The instruction of a line `/*0010*/ @P0 BRA ...;`.
fn instruction(line: &str) -> Option<Instruction<'_>> {
    let text = line.strip_prefix("/*")?.split_once("*/")?.1.trim();
    let (conditional, text) = match text.strip_prefix('@') {
        Some(rest) => (true, rest.split_once(' ')?.1.trim()),
        None => (false, text),
    };
    text.starts_with(|c: char| c.is_ascii_uppercase()).then_some((conditional, text))
}

/// Whether an instruction is packed arithmetic of 16-bit floats whose negative results become zeros.
fn clamps(text: &str) -> bool {
    let mut words = text.split([' ', '.']).take_while(|word| !word.is_empty());
    words.next().is_some_and(|name| name.starts_with('H')) && words.any(|word| word == "RELU")
}

/// The longest way from the first instruction, without going back, and whether one could.
fn longest(code: &[Instruction<'_>], labels: &HashMap<&str, usize>) -> (u32, bool) {
    let mut behind = vec![0; code.len() + 1];
    let mut loops = false;
    for (at, (conditional, text)) in code.iter().enumerate().rev() {
        let target = text.starts_with("BRA").then(|| text.split_once("`(")?.1.split_once(')')).flatten();
        let target = target.and_then(|(label, _)| labels.get(label).copied());
        // What stands behind the end is a branch to itself.
        loops |= target.is_some_and(|target| target < at || target == at && *conditional);
        let taken = target.filter(|target| *target > at).map_or(0, |target| behind[target]);
        let leaves = text.starts_with("EXIT") || text.starts_with("BRA") || text.starts_with("RET");
        let next = if leaves && !conditional { 0 } else { behind[at + 1] };
        behind[at] = taken.max(next) + u32::from(!text.starts_with("NOP"));
    }
    (behind[0], loops)
}

#[cfg(test)]
mod tests {
    use super::{Entry, count};

    fn listing(code: &str) -> String {
        format!("\t.target\tsm_90\n\t.section\t.text.k,\"ax\",@progbits\nk:\n.text.k:\n{code}")
    }

    #[test]
    fn the_longer_of_two_ways_counts() {
        let code = "/*0000*/ MOV R1, R2 ;
            /*0010*/ @!P0 EXIT ;
            /*0020*/ @P1 BRA `(.L_x_0) ;
            /*0030*/ FADD R1, R1, R1 ;
            /*0040*/ CALL.REL.NOINC `($slow) ;
            /*0050*/ EXIT ;
        .L_x_0:
            /*0060*/ FMUL R1, R1, R1 ;
            /*0070*/ FMUL R1, R1, R1 ;
            /*0080*/ FMUL R1, R1, R1 ;
            /*0090*/ EXIT ;
        .L_x_1:
            /*00a0*/ BRA `(.L_x_1);
            /*00b0*/ NOP;";
        assert_eq!(
            count(&listing(code)),
            [Entry { name: "k".to_owned(), longest: 7, loops: false, clamped: Vec::new() }]
        );
    }

    #[test]
    fn a_way_back_is_a_loop() {
        let code = ".L_x_0:\n/*0000*/ FADD R1, R1, R1 ;\n/*0010*/ @P0 BRA `(.L_x_0) ;\n/*0020*/ EXIT ;";
        assert_eq!(
            count(&listing(code)),
            [Entry { name: "k".to_owned(), longest: 3, loops: true, clamped: Vec::new() }]
        );
    }

    /// What the pinned assembler made of a product of two bf16 and its greatest magnitude with zero, and what is right.
    #[test]
    fn a_packed_product_that_loses_its_negative_results_is_found() {
        let code = "/*0080*/ LDG.E R7, desc[UR4][R2.64+0x80] ;
            /*0090*/ @!P0 HFMA2.MMA.BF16_V2.RELU R0, R0, R7, RZ ;
            /*00a0*/ HFMA2.RELU R0, R0, R5, RZ.H0_H0 ;
            /*00b0*/ HMUL2.BF16_V2 R1, R0, R7 ;
            /*00c0*/ F2FP.RELU.BF16.F32.PACK_AB R1, R0, R7 ;
            /*00d0*/ EXIT ;";
        let [entry] = &count(&listing(code))[..] else { panic!("one entry") };
        let clamped = ["HFMA2.MMA.BF16_V2.RELU R0, R0, R7, RZ ;", "HFMA2.RELU R0, R0, R5, RZ.H0_H0 ;"];
        assert_eq!(entry.clamped, clamped);
    }
}
