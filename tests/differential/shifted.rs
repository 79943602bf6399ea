//! Tensors beside themselves, some rows further.

use fusewright::graph::Graph;

use crate::judge;

#[track_caller]
fn agree(text: &str) {
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    judge::judge(&graph, 11).unwrap_or_else(|f| panic!("{}: {}\n{text}", f.kind, f.message));
}

/// A slice that padding fills up to the extent of its source, beside that source: both have the same rows, and different elements.
#[test]
fn a_shifted_tensor_stands_beside_itself() {
    let first = "%a = slice %x {axis = 0, start = 1, end = s + 2}";
    let later = "%a = slice %x {axis = 0, start = 2, end = s + 2}";
    let computed = "%v = sqrt %x\n%a = slice %v {axis = 0, start = 1, end = s + 2}";
    let twice = "%b = slice %x {axis = 0, start = 1, end = s + 2}\n%a = slice %b {axis = 0, start = 1, end = s + 1}";
    for (cut, rows) in [(first, 1), (later, 2), (computed, 1), (twice, 2)] {
        for (value, end) in [("0.0", "%y = add %c, %x"), ("1.0", "%n = neg %x\n%y = mul %n, %c")] {
            for beside in
                ["", "%r = reduce %c {op = add, axes = [1]}\n%sum = reshape %r {shape = [s + 2, 1]}\n%w = mul %y, %sum"]
            {
                let text = format!(
                    "graph @shifted(s: 0..; %x: f32[s + 2, 3]) {{
                       {cut}
                       %l = literal f32 {value}
                       %e = expand %l {{shape = [{rows}, 3]}}
                       %c = cat %a, %e {{axis = 0}}
                       {end}
                       {beside}
                       return {}
                     }}",
                    if beside.is_empty() { "%y" } else { "%w" }
                );
                agree(&text);
            }
        }
    }
    // Two shifts of one tensor, ahead and behind, and one along the second of two axes of rows.
    agree(
        "graph @both(s: 0..; %x: f32[s + 2, 5]) {
           %a = slice %x {axis = 0, start = 1, end = s + 2}
           %b = slice %x {axis = 0, start = 0, end = s + 1}
           %l = literal f32 0.0
           %e = expand %l {shape = [1, 5]}
           %c = cat %a, %e {axis = 0}
           %d = cat %e, %b {axis = 0}
           %y = sub %c, %d
           %z = mul %y, %x
           return %z
         }",
    );
    agree(
        "graph @second(s: 0..; %x: bf16[4, s + 2, 7]) {
           %a = slice %x {axis = 1, start = 1, end = s + 2}
           %l = literal bf16 0.0
           %e = expand %l {shape = [4, 1, 7]}
           %c = cat %a, %e {axis = 1}
           %y = add %c, %x
           return %y
         }",
    );
    // Over itself: a row is read behind the one that its own row overwrites.
    agree(
        "graph @over(s: 0..; %x: f32[s + 2, 5]) {
           %a = slice %x {axis = 0, start = 1, end = s + 2}
           %l = literal f32 0.0
           %e = expand %l {shape = [1, 5]}
           %c = cat %a, %e {axis = 0}
           %y = add %c, %x
           return %y updates %x
         }",
    );
}
