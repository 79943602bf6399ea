//! Dropping values that no store needs.

use super::expand::rename_index;
use super::{Inst, InstOp, Kernel, Segment, Val};

/// The kernel without instructions whose results are not used; values are numbered anew.
pub fn without_unused(kernel: &Kernel) -> Kernel {
    Kernel { segments: kernel.segments.iter().map(used_part).collect(), ..kernel.clone() }
}

fn used_part(segment: &Segment) -> Segment {
    let mut used = vec![false; segment.types.len()];
    let mut kept = vec![false; segment.insts.len()];
    for (at, inst) in segment.insts.iter().enumerate().rev() {
        let needed = matches!(inst.op, InstOp::Store { .. }) || inst.results.iter().any(|v| used[v.0 as usize]);
        if needed {
            kept[at] = true;
            inst.args.iter().for_each(|v| used[v.0 as usize] = true);
            gathered(&inst.op).for_each(|v| used[v.0 as usize] = true);
        }
    }
    let mut renamed = vec![Val(0); segment.types.len()];
    let mut part = Segment { insts: Vec::new(), types: Vec::new(), ..segment.clone() };
    for (inst, _) in segment.insts.iter().zip(&kept).filter(|(_, kept)| **kept) {
        let op = rename_index(&inst.op, &renamed);
        let args = inst.args.iter().map(|v| renamed[v.0 as usize]).collect();
        for old in &inst.results {
            renamed[old.0 as usize] = Val(part.types.len() as u32);
            part.types.push(segment.ty(*old).clone());
        }
        let results = inst.results.iter().map(|v| renamed[v.0 as usize]).collect();
        part.insts.push(Inst { op, args, results });
    }
    part
}

/// The values that an index mentions.
pub(super) fn gathered(op: &InstOp) -> impl Iterator<Item = Val> {
    let mut names = std::collections::BTreeSet::new();
    if let Some(index) = op.index() {
        index.collect_symbols(&mut names);
    }
    names.into_iter().filter_map(|name| Val::from_symbol(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stores_need_stays() {
        let text = "kernel @k(s = extent(x, 0)) rows s { param %x: i32[s, 8] in param %y: i32[s] out segment @m inner 1 { \
            %unused = index row + 1 %in = load x[row*8] : scalar<i32> %mask = literal i32 7 %at = and %in, %mask %chain = add %unused, %unused \
            %v = load x[row*8 + %at] : scalar<i32> store y[row], %v } }";
        let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
        let kept = without_unused(&kernel);
        crate::kernel::verify(&kept).unwrap_or_else(|e| panic!("{e}"));
        let insts: Vec<String> =
            kept.to_string().lines().filter(|l| l.starts_with("    ")).map(str::to_owned).collect();
        let expected = [
            "    %0 = load x[row*8] : scalar<i32>",
            "    %1 = literal i32 7",
            "    %2 = and %0, %1",
            "    %3 = load x[%2 + row*8] : scalar<i32>",
            "    store y[row], %3",
        ];
        assert_eq!(insts, expected);
        assert_eq!(without_unused(&kept), kept);
    }
}
