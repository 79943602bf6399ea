//! Every rewrite of the tables is a theorem, and the check finds what is not.

use fusewright_fusion::rewrites::theorem::{Effort, Verdict, check};
use fusewright_fusion::rewrites::{Class, Rewrite, all, apply};

fn verdict(rewrite: &Rewrite) -> Verdict {
    check(rewrite, &[], Effort { choices: usize::MAX, instances: usize::MAX }, &|graph| {
        let (rewritten, counts) = apply(graph, &[rewrite])?;
        Ok((!counts.is_empty()).then_some(rewritten))
    })
}

#[test]
fn every_rewrite_of_the_tables_holds() {
    assert!(all().len() >= 80, "{} rewrites", all().len());
    let mut failures = Vec::new();
    for rewrite in all() {
        let verdict = verdict(rewrite);
        failures.extend(verdict.uncompared().map(|f| format!("{}: {f}", rewrite.name)));
        failures.extend(verdict.failure.map(|f| format!("{}: {f}", rewrite.name)));
        let missing: Vec<_> = verdict.built.iter().filter(|d| !verdict.dtypes.contains(d)).collect();
        if verdict.instances < 6 || !missing.is_empty() {
            failures.push(format!("{}: applied {} times, never at {missing:?}", rewrite.name, verdict.instances));
        }
        if rewrite.class == Class::Fast && verdict.different == 0 {
            failures.push(format!("{}: the same bits on every operand, so it is exact", rewrite.name));
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn a_wrong_rewrite_is_found() {
    use Class::{Exact, Fast};
    for (class, lhs, rhs) in [
        (Exact, "(x) y = add x, 0; yield y", "(x) yield x"),
        (Exact, "(x) y = mul x, 0; yield y", "(x) y = sub x, x; yield y"),
        (Exact, "(x) y = neg x; z = abs y; yield z", "(x) z = abs x; yield z"),
        (Exact, "(x, y) z = sub x, y; w = neg z; yield w", "(x, y) w = sub y, x; yield w"),
        (Exact, "(x, y) z = sub x, y; w = add z, y; yield w", "(x, y) yield x"),
        (Exact, "(x: bf16) y = cast x {to = f16}; z = cast y {to = bf16}; yield z", "(x) yield x"),
        (Exact, "(x) y = cast x {..}; yield y", "(x) yield x"),
        (Exact, "(x: f32) y = cast x {to = f64, ..}; z = cast y {$a}; yield z", "(x) z = cast x {$a}; yield z"),
        (Exact, "(x) y = permute x {..}; z = permute y {$p}; yield z", "(x) z = permute x {$p}; yield z"),
        (Exact, "(c, x, y) n = not c; z = select n, x, y; yield z", "(c, x, y) z = select c, x, y; yield z"),
        (Fast, "(x: float, c) y = mul x, c; yield y", "(x, c) y = div x, c; yield y"),
        (Fast, "(x: f32) y = cast x {to = bf16}; z = cast y {to = f32}; yield z", "(x) y = sqrt x; yield y"),
    ] {
        let rewrite = Rewrite::new("planted", class, "", lhs, rhs).expect(lhs);
        let verdict = verdict(&rewrite);
        assert!(verdict.failure.is_some(), "{lhs} => {rhs} passed on {} instances", verdict.instances);
    }
}

#[test]
fn an_exact_rewrite_is_not_fast() {
    let rewrite = Rewrite::new("planted", Class::Fast, "", "(x) y = mul x, 1; yield y", "(x) yield x").expect("parses");
    let verdict = verdict(&rewrite);
    assert!(verdict.instances > 0 && verdict.different == 0);
}
