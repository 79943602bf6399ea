//! Sizes that views and expansions ask for, against what the file states for their results.

use super::attention::{argument, call, one_node, tensor};

fn ints(name: &str, values: &[i64]) -> String {
    argument(name, &format!(r#"{{"as_ints":{values:?}}}"#))
}

fn viewed(target: &str, from: &[i64], argument: &str, size: &[i64], to: &[i64]) -> Result<(), String> {
    let node = call(target, &[tensor("self", "x"), ints(argument, size)]);
    let made = one_node(&[("x", 7, from)], &node, &[("y", 7, to)]);
    made.map(|_| ()).map_err(|diagnostic| diagnostic.to_string())
}

#[test]
fn a_size_is_that_of_the_result() {
    for (size, to) in [([2, 6], [2, 6]), ([-1, 6], [2, 6]), ([4, -1], [4, 3])] {
        assert_eq!(viewed("aten.view.default", &[3, 4], "size", &size, &to), Ok(()));
        assert_eq!(viewed("aten.reshape.default", &[3, 4], "shape", &size, &to), Ok(()));
    }
    assert_eq!(viewed("aten.expand.default", &[3, 1], "size", &[2, -1, 4], &[2, 3, 4]), Ok(()));
}

#[track_caller]
fn refused(made: Result<(), String>, expected: &str) {
    let message = made.expect_err("a contradiction");
    assert!(message.contains("import.size") && message.contains(expected) && message.contains("n ("), "{message}");
}

#[test]
fn contradictions_name_the_node() {
    let view = "aten.view.default";
    refused(viewed(view, &[3, 4], "size", &[6, 2], &[2, 6]), "asks for [6, 2], but its result is f32[2, 6]");
    refused(viewed(view, &[3, 4], "size", &[12], &[2, 6]), "asks for [12], but its result is f32[2, 6]");
    refused(viewed(view, &[3, 4], "size", &[-1, -1], &[2, 6]), "several extents are left open");
    refused(viewed(view, &[3, 4], "size", &[2, 7], &[2, 7]), "the numbers of elements differ");
    let expand = "aten.expand.default";
    refused(viewed(expand, &[3, 1], "size", &[3, 4], &[3, 5]), "asks for [3, 4], but its result is f32[3, 5]");
    refused(viewed(expand, &[3, 2], "size", &[3, 4], &[3, 4]), "does not expand to f32[3, 4]");
    refused(viewed(expand, &[3, 1], "size", &[-1, 4], &[2, 4]), "asks for [-1, 4], but its result is f32[2, 4]");
}

#[test]
fn pieces_are_of_the_sizes_that_are_asked_for() {
    for (target, sizes) in [("aten.split_with_sizes.default", "split_sizes"), ("aten.split.sizes", "split_size")] {
        let split = |asked: &[i64]| viewed(target, &[3, 4], sizes, asked, &[3, 4]);
        assert_eq!(split(&[3]), Ok(()));
        refused(split(&[-3]), "asks for pieces of [-3], but the file has [3]");
        refused(split(&[2, 1]), "asks for pieces of [2, 1], but the file has [3]");
    }
    let each = |size: i64| viewed("aten.split.Tensor", &[3, 4], "split_size", &[size], &[3, 4]);
    assert_eq!((each(3), each(5)), (Ok(()), Ok(())));
    refused(each(2), "asks for pieces of [2], but the file has [3]");
    refused(each(-1), "asks for pieces of [-1], but the file has [3]");
}
