//! Buffers that a model keeps from call to call: the values that PyTorch leaves in its own, in the memory where they lie.

use std::collections::BTreeMap;
use std::path::Path;

use fusewright::check;
use fusewright::diff::options;
use fusewright::graph::interp::Symbols;
use fusewright::graph::{Graph, InputKind};
use fusewright::inputs::weights_as_inputs;
use fusewright::{Argument, HostTensor, Options, Program, State, Target, compile, model, read_safetensors};

const BUFFERS: [&str; 4] = ["keys", "values", "mean", "steps"];

fn opened(form: &str) -> Graph {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/decode_state.{form}.pt2"));
    model::open(&file).unwrap_or_else(|e| panic!("{e}"))
}

fn stored() -> BTreeMap<String, HostTensor> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/decode_state.safetensors");
    read_safetensors(&file).unwrap_or_else(|e| panic!("{e}"))
}

fn compiled(graph: &Graph, fuse: bool) -> Program {
    compile(graph, &Target::Cpu, &Options { fuse, ..options() }).unwrap_or_else(|e| panic!("{e}")).program
}

/// The inputs of a step.
fn given(stored: &BTreeMap<String, HostTensor>, step: usize) -> [HostTensor; 2] {
    [0, 1].map(|i| stored[&format!("step{step}_in{i}")].clone())
}

fn addresses(state: &State) -> Vec<*const u8> {
    state.buffers().map(|(_, tensor)| tensor.bytes.as_ptr()).collect()
}

/// Compares the result of a step that began with `before` by the interval rule, and the buffers to the bit.
fn judge(
    graph: &Graph,
    stored: &BTreeMap<String, HostTensor>,
    step: usize,
    before: &State,
    after: &State,
    out: HostTensor,
) {
    let changed = |kind: &InputKind| matches!(kind, InputKind::Weight(_));
    let graph = weights_as_inputs(graph, changed);
    let mut inputs: Vec<HostTensor> = Vec::new();
    let mut rest = given(stored, step).into_iter();
    for input in graph.inputs() {
        inputs.extend(before.get(&input.name).cloned().or_else(|| rest.next()));
    }
    let at = check::results(&graph).next().expect("there is a result");
    let mut produced: Vec<HostTensor> = graph.outputs().iter().map(|_| out.clone()).collect();
    produced[at] = out;
    let expected = [(at, stored[&format!("step{step}_out0")].clone())];
    let checks = check::compare(&graph, &inputs, &expected, &produced).unwrap_or_else(|e| panic!("{e}"));
    assert!(checks.iter().all(check::OutputCheck::passed), "step {step}: {checks:?}");
    for name in BUFFERS {
        let ours = after.get(&format!("b_{name}")).unwrap_or_else(|| panic!("no buffer {name}"));
        assert!(*ours == stored[&format!("step{step}_b_{name}")], "step {step}: {name} is {ours:?}");
    }
}

#[test]
fn three_calls_leave_what_pytorch_leaves_in_place() {
    let stored = stored();
    for (form, fuse) in [("train", true), ("train", false), ("core", true), ("core", false)] {
        let graph = opened(form);
        let program = compiled(&graph, fuse);
        let mut state = program.state().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(state.buffers().count(), BUFFERS.len());
        let memory = addresses(&state);
        for step in 0..3 {
            let inputs = given(&stored, step);
            let mut arguments: Vec<Argument<'_>> = inputs.iter().map(Argument::Read).collect();
            let placement = program.placement_with_state(&arguments).unwrap_or_else(|e| panic!("{e}"));
            assert!(placement.updates.iter().all(|u| u.in_place), "{form}: {placement:?}");
            assert_eq!((placement.updates.len(), placement.copied()), (BUFFERS.len(), 0), "{placement:?}");
            let before = state.clone();
            let results = program.run_with_state(&mut state, &mut arguments, 2).unwrap_or_else(|e| panic!("{e}"));
            let mut results = results.into_iter().flatten();
            judge(&graph, &stored, step, &before, &state, results.next().expect("a result"));
            assert!(results.next().is_none(), "new values of buffers are in the state");
        }
        assert_eq!(addresses(&state), memory, "the state's memory");
    }
}

#[test]
fn calls_without_a_state_begin_with_the_file() {
    let (stored, graph) = (stored(), opened("train"));
    let program = compiled(&graph, true);
    let inputs = given(&stored, 0);
    let run = || program.run(&inputs.iter().collect::<Vec<_>>(), 1).unwrap_or_else(|e| panic!("{e}"));
    let first = run();
    // A state that changes in between is none of theirs, and one of its own begins with the file as well.
    let mut state = program.state().expect("it has data");
    let mut arguments: Vec<Argument<'_>> = inputs.iter().map(Argument::Read).collect();
    for _ in 0..2 {
        program.run_with_state(&mut state, &mut arguments, 1).unwrap_or_else(|e| panic!("{e}"));
    }
    assert!(run() == first && program.state().expect("it has data") != state);
    let reasons = program.placement(&arguments).expect("it fits").updates;
    let expected = "input `b_keys` is a buffer of the model, without a state";
    assert_eq!(reasons[0].reason.as_deref(), Some(expected), "{reasons:?}");
    // All outputs, with the new values of the buffers, wherever they were written.
    let (overwritten, placement) =
        program.run_overwriting(&Symbols::new(), inputs.to_vec(), 1).unwrap_or_else(|e| panic!("{e}"));
    assert!(overwritten == first && placement.updates.iter().all(|u| u.in_place), "{placement:?}");
}

#[test]
fn a_state_of_another_model_is_refused() {
    let (stored, graph) = (stored(), opened("core"));
    let program = compiled(&graph, true);
    let inputs = given(&stored, 0);
    let refused = |state: &mut State| {
        let mut arguments: Vec<Argument<'_>> = inputs.iter().map(Argument::Read).collect();
        let before = state.clone();
        let error = program.run_with_state(state, &mut arguments, 1).expect_err("it does not fit").to_string();
        assert!(*state == before, "a call that does not fit changes nothing");
        error
    };
    let plain: Graph = "graph @plain(%x: f32[4]) {\n  %y = neg %x\n  return %y\n}\n".parse().expect("parses");
    let mut other = compiled(&plain, true).state().expect("it has none");
    assert_eq!(other.buffers().count(), 0);
    assert!(refused(&mut other).ends_with("updates 4 buffers, the state has 0"));
    let mut state = program.state().expect("it has data");
    assert!(state.get_mut("b_nothing").is_none());
    state.get_mut("b_mean").expect("a buffer").bytes.truncate(3);
    assert_eq!(refused(&mut state), "buffer `b_mean` is f32[8], the state has f32[8] of 3 bytes");
    let mut state = program.state().expect("it has data");
    state.get_mut("b_mean").expect("a buffer").shape = vec![2, 4];
    assert!(refused(&mut state).starts_with("buffer `b_mean` is f32[8], the state has f32[2, 4]"));
}
