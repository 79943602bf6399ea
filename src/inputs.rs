//! Inputs made from a seed, for runs without a file of tensors: the same graph, seed and sizes give the same bytes.
//!
//! The values of an input depend on the seed, the sizes and its name alone, so that graphs that share inputs share
//! operands.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use fusewright_abi::DType;
use fusewright_graph::interp::Symbols;
use fusewright_graph::operands::THRESHOLDS;
use fusewright_graph::tensor::{Data, Tensor, check_memory, element_count};
use fusewright_graph::{Builder, Def, Dim, Graph, Input, InputKind, Node, Op, Prim, Rounding, Symbol, Value, num};

pub use fusewright_graph::operands::Random;

mod fitting;

use crate::Error;

/// Seed of a run that names none.
pub const DEFAULT_SEED: u64 = 1;
/// Value of a symbol that nothing sets, moved into its range, where a whole model runs.
pub const DEFAULT_ROWS: i64 = 16;

/// Which values are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Values {
    /// Floats like the activations of a model, integers 0 or 1.
    Ordinary,
    /// Rows of zeros, of ordinary and of wide values, and rows with every edge; any integer, but mostly 0 or 1 where the
    /// graph takes indices.
    Edges,
}

/// Sizes that a caller chooses.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Sizes {
    /// Value of every symbol that `dims` does not name.
    pub rows: Option<i64>,
    /// Values of symbols by name.
    pub dims: BTreeMap<String, i64>,
}

/// The value of every symbol of a graph: as the sizes say, else `default` moved into the symbol's range; or the nearest
/// number to `default` with which no extent is negative and no slice leaves its axis, if there is one nearby.
///
/// # Errors
/// A value outside the symbol's range, or a size that no symbol takes.
pub fn symbols(graph: &Graph, sizes: &Sizes, default: i64) -> Result<Symbols, Error> {
    let known = || graph.symbols().iter().map(|s| format!("`{}`", s.name)).collect::<Vec<_>>().join(", ");
    if let Some(name) = sizes.dims.keys().find(|name| graph.symbols().iter().all(|s| s.name != **name)) {
        let there = if graph.symbols().is_empty() { "none".to_owned() } else { known() };
        return Err(Error::Call(format!("no symbol `{name}` in graph `{}`; there is {there}", graph.name())));
    }
    if sizes.rows.is_some() && graph.symbols().is_empty() {
        return Err(Error::Call(format!("graph `{}` has no symbol that takes a number of rows", graph.name())));
    }
    let chosen = |symbol: &Symbol| sizes.dims.get(&symbol.name).copied().or(sizes.rows);
    if let Some((symbol, value)) =
        graph.symbols().iter().filter_map(|s| Some((s, chosen(s)?))).find(|(symbol, value)| !symbol.admits(*value))
    {
        return Err(Error::Call(format!("symbol `{}` is {value}, outside {}", symbol.name, symbol.span())));
    }
    let with = |default: i64| -> Symbols {
        let moved = |symbol: &Symbol| default.min(symbol.max.unwrap_or(default)).max(symbol.min);
        let value = |symbol: &Symbol| (symbol.name.clone(), chosen(symbol).unwrap_or_else(|| moved(symbol)));
        graph.symbols().iter().map(value).collect()
    };
    Ok(fitting::nearest(graph, default, &with).unwrap_or_else(|| with(default)))
}

/// The user inputs of a graph.
///
/// # Errors
/// An extent that has no value there, or more elements than memory holds.
pub fn tensors(graph: &Graph, symbols: &Symbols, seed: u64, values: Values) -> Result<Vec<Tensor>, Error> {
    let below = graph.nodes().iter().filter_map(|node| index_bound(graph, node, symbols)).min();
    let number = symbols.values().fold(0, |h: u64, &v| h.wrapping_mul(31).wrapping_add(v as u64));
    let users = graph.inputs().iter().filter(|input| input.kind.is_given());
    let places = scattered_to(graph);
    let tensor = |input: &Input| {
        let ty = graph.ty(input.value);
        let shape = shape(&ty.shape, symbols).map_err(|e| Error::Call(format!("input `{}`: {e}", input.name)))?;
        let mut random = Random::named(seed, number, &input.name);
        if let Some((extents, skips)) = places.get(&input.value) {
            let about = |e: &dyn Display| Error::Call(format!("input `{}`: {e}", input.name));
            let mut least = i64::MAX;
            for extent in extents {
                least = least.min(extent.eval(&|name| symbols.get(name).copied()).map_err(|e| about(&e))?);
            }
            return distinct(ty.dtype, &shape, &mut random, least, *skips).map_err(|e| about(&e));
        }
        fill(ty.dtype, &shape, &mut random, values, below).map_err(|e| e.about(format!("input `{}`", input.name)))
    };
    users.map(tensor).collect()
}

/// Below what integers are made where a node takes indices: 2, or 1 where there is one place.
fn index_bound(graph: &Graph, node: &Node, symbols: &Symbols) -> Option<u64> {
    let Op::Prim(Prim::Gather { axis } | Prim::Scatter { axis } | Prim::ScatterReduce { axis, .. }) = node.op else {
        return None;
    };
    let extent = graph.ty(node.operands[0]).shape[axis].eval(&|name| symbols.get(name).copied());
    Some(if extent.is_ok_and(|n| n == 1) { 1 } else { 2 })
}

/// The integer inputs that alone say where a scatter writes: the extents that they index, of gathers as well, and whether
/// a negative one is handed on as it is and read by scatters alone, which skip it.
fn scattered_to(graph: &Graph) -> BTreeMap<Value, (Vec<Dim>, bool)> {
    let mut places: BTreeMap<Value, (Vec<Dim>, bool)> = BTreeMap::new();
    let mut gathered = Vec::new();
    for node in graph.nodes() {
        let (
            Op::Prim(Prim::Scatter { axis } | Prim::ScatterReduce { axis, .. } | Prim::Gather { axis }),
            &[of, indices, ..],
        ) = (&node.op, node.operands.as_slice())
        else {
            continue;
        };
        let Some((source, direct)) = index_source(graph, indices) else { continue };
        let extent = graph.ty(of).shape[*axis].clone();
        // Places that are added to may be equal, as those that are read may.
        if !matches!(node.op, Op::Prim(Prim::Scatter { .. })) {
            gathered.push((source, extent));
            continue;
        }
        let (extents, skips) = places.entry(source).or_insert((Vec::new(), true));
        extents.push(extent);
        *skips &= direct;
    }
    for (source, extent) in gathered {
        if let Some((extents, skips)) = places.get_mut(&source) {
            extents.push(extent);
            *skips = false;
        }
    }
    places
}

/// The only integer input that indices are made from, and whether they are its elements as they are.
fn index_source(graph: &Graph, indices: Value) -> Option<(Value, bool)> {
    let (mut sources, mut direct) = (BTreeSet::new(), true);
    let mut stack = vec![indices];
    while let Some(value) = stack.pop() {
        match graph.def(value) {
            Def::Input(i) if !graph.ty(value).dtype.is_float() && graph.ty(value).rank() > 0 => {
                sources.insert(graph.inputs()[i].value);
            }
            Def::Input(_) => {}
            Def::Node(id, _) => {
                let op = &graph.node(id).op;
                direct &= matches!(op, Op::Prim(Prim::Cast { .. } | Prim::Reshape { .. } | Prim::Slice { .. }));
                stack.extend(&graph.node(id).operands);
            }
        }
    }
    sources.first().filter(|_| sources.len() == 1).map(|&source| (source, direct))
}

/// Places below an extent, none twice as far as they go; beyond that, and here and there, one outside if that `skips`.
fn distinct(dtype: DType, shape: &[usize], random: &mut Random, extent: i64, skips: bool) -> Result<Tensor, String> {
    let mut left: Vec<i64> = (0..extent.max(0)).collect();
    let outside = |random: &mut Random| if random.once_in(3) { extent.max(0) } else { -1 };
    let mut next = |at: usize| match (left.len(), skips) {
        (0, true) => outside(random),
        (0, false) => at as i64 % extent.max(1),
        (_, true) if random.once_in(5) => outside(random),
        (n, _) => left.swap_remove(random.below(n)),
    };
    let places = (0..shape.iter().product()).map(&mut next).collect();
    Tensor::from_i64(dtype, shape, places).map_err(|e| e.to_string())
}

/// Extents at the values of the symbols.
pub(crate) fn shape(dims: &[Dim], symbols: &Symbols) -> Result<Vec<usize>, String> {
    let extent = |dim: &Dim| {
        let value = dim.eval(&|name| symbols.get(name).copied()).map_err(|e| e.to_string())?;
        usize::try_from(value).map_err(|_| format!("extent {dim} is {value}"))
    };
    dims.iter().map(extent).collect()
}

/// A graph whose weights are inputs of each call where `wanted` says so, so that it runs without a model's data.
pub fn weights_as_inputs(graph: &Graph, wanted: impl Fn(&InputKind) -> bool) -> Graph {
    let b = Builder::new(graph.name());
    for symbol in graph.symbols() {
        b.symbol(&symbol.name, symbol.min, symbol.max);
    }
    let mut map: BTreeMap<Value, Value> = BTreeMap::new();
    for input in graph.inputs() {
        let ty = graph.ty(input.value).clone();
        let kind = if wanted(&input.kind) { InputKind::User } else { input.kind.clone() };
        map.insert(input.value, b.add_input(&input.name, ty, kind));
    }
    for node in graph.nodes() {
        b.set_origin(node.origin.clone());
        let operands: Vec<Value> = node.operands.iter().map(|v| map[v]).collect();
        let results = b.op(node.op.clone(), &operands).expect("the node was typed in the graph it comes from");
        for (&old, new) in node.results.iter().zip(results) {
            graph.value_name(old).into_iter().for_each(|name| b.name(new, name));
            map.insert(old, new);
        }
    }
    graph.outputs().iter().for_each(|o| b.add_output(map[&o.value], o.updates.clone()));
    b.finish()
}

/// How the values of one row are drawn.
#[derive(Clone, Copy)]
enum Mood {
    Zero,
    Normal,
    Ordinary,
    Wide,
    Edges,
}

/// A tensor of random values; integers are less than `below`, if that is given.
pub(crate) fn fill(
    dtype: DType,
    shape: &[usize],
    random: &mut Random,
    values: Values,
    below: Option<u64>,
) -> Result<Tensor, Error> {
    let count = element_count(dtype, shape)?;
    check_memory::<f64>(count, dtype, shape)?;
    let lanes = shape.last().copied().unwrap_or(1).max(1);
    let of = |class: bool| if class { count } else { 0 };
    let mut floats = Vec::with_capacity(of(dtype.is_float()));
    let mut ints = Vec::with_capacity(of(!dtype.is_float()));
    let mut mood = Mood::Normal;
    for i in 0..count {
        if i % lanes == 0 && values == Values::Edges {
            mood = random.pick(&[Mood::Zero, Mood::Ordinary, Mood::Ordinary, Mood::Ordinary, Mood::Wide, Mood::Edges]);
        }
        if dtype.is_float() {
            floats.push(float(mood, random));
        } else {
            ints.push(match mood {
                Mood::Zero => 0,
                _ => match below.or((values == Values::Ordinary).then_some(2)) {
                    Some(_) if values == Values::Edges && random.once_in(6) => random.next_bits() as i64,
                    Some(below) => (random.next_bits() % below) as i64,
                    None => random.next_bits() as i64,
                },
            });
        }
    }
    let made = if dtype.is_float() {
        // Formats without an infinity, a NaN or a sign take the nearest value that they have.
        let rounded = |x: f64| num::round_to(dtype, x, Rounding::NearestEven, false);
        // Every other NaN has bits of its own: the sign, and all that may be set.
        let held = |(i, x): (usize, f64)| match num::decode(dtype, num::encode(dtype, rounded(x))) {
            x if x.is_nan() && i % 2 == 1 => num::element(dtype, u64::MAX),
            x => x,
        };
        let held = floats.into_iter().enumerate().map(held).collect();
        Tensor::new(dtype, shape.to_vec(), Data::Float(held))
    } else {
        Tensor::from_i64(dtype, shape, ints)
    };
    Ok(made?)
}

fn float(mood: Mood, random: &mut Random) -> f64 {
    match mood {
        Mood::Zero => 0.0,
        // A sum of uniform numbers is near enough to the normal activations of a model.
        Mood::Normal => (random.unit() + random.unit() + random.unit()) / 2.0,
        Mood::Ordinary => random.unit() * 4.0,
        Mood::Wide => random.unit() * (random.unit() * 40.0).exp2(),
        Mood::Edges if random.once_in(6) => random.pick(&THRESHOLDS),
        Mood::Edges => random.unit() * 100.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "graph @g(s: 2..8, t: 20..; %x: bf16[s, 4], %i: i64[t], %w: weight bf16[4]) {\n  \
                        %y = mul %x, %w\n  return %y\n}\n";

    fn graph() -> Graph {
        TEXT.parse().expect("the text is right")
    }

    fn sizes(rows: Option<i64>, dims: &[(&str, i64)]) -> Sizes {
        Sizes { rows, dims: dims.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect() }
    }

    #[test]
    fn symbols_lie_in_their_ranges() {
        let of = |rows, dims: &[(&str, i64)]| symbols(&graph(), &sizes(rows, dims), DEFAULT_ROWS);
        let values = |rows, dims: &[(&str, i64)]| of(rows, dims).map(|s| (s["s"], s["t"])).map_err(|e| e.to_string());
        assert_eq!(values(None, &[]), Ok((8, 20)));
        assert_eq!(values(None, &[("s", 3)]), Ok((3, 20)));
        assert_eq!(values(Some(30), &[("s", 8)]), Ok((8, 30)));
        assert_eq!(values(Some(30), &[]), Err("symbol `s` is 30, outside 2 to 8".to_owned()));
        assert_eq!(values(None, &[("t", 1)]), Err("symbol `t` is 1, outside 20 and above".to_owned()));
        assert_eq!(values(None, &[("u", 1)]), Err("no symbol `u` in graph `g`; there is `s`, `t`".to_owned()));
    }

    #[test]
    fn symbols_fit_the_extents_of_a_graph() {
        let text = "graph @g(s: 1..; %x: f32[s, 4]) {\n  %y = slice %x {axis = 0, start = 5, end = s}\n  \
                    %z = slice %x {axis = 0, start = 2, end = 9}\n  return %y, %z\n}\n";
        let graph: Graph = text.parse().expect("the text is right");
        let chosen = |default, dims: &[(&str, i64)]| symbols(&graph, &sizes(None, dims), default).map(|s| s["s"]);
        assert_eq!(chosen(1, &[]).expect("one fits"), 9, "both slices lie inside");
        assert_eq!(chosen(33, &[]).expect("one fits"), 33);
        assert_eq!(chosen(1, &[("s", 3)]).expect("in range"), 3, "what a caller chooses stays");
        let text = "graph @g(s: 0..; %x: f32[6 - s]) {\n  %y = neg %x\n  return %y\n}\n";
        let graph: Graph = text.parse().expect("the text is right");
        assert_eq!(symbols(&graph, &Sizes::default(), 33).expect("one fits")["s"], 6);
    }

    #[test]
    fn a_seed_gives_the_same_values_and_another_seed_others() {
        let graph = weights_as_inputs(&graph(), |kind| matches!(kind, InputKind::Weight(None)));
        let symbols = symbols(&graph, &Sizes::default(), DEFAULT_ROWS).expect("every symbol has a value");
        for values in [Values::Ordinary, Values::Edges] {
            let made = |seed| tensors(&graph, &symbols, seed, values).expect("the types are right");
            let shapes: Vec<Vec<usize>> = made(1).iter().map(|t| t.shape().to_vec()).collect();
            assert_eq!(shapes, [vec![8, 4], vec![20], vec![4]]);
            let bytes = |seed| made(seed).iter().map(Tensor::to_bytes).collect::<Vec<_>>();
            assert_eq!(bytes(1), bytes(1));
            assert_ne!(bytes(1), bytes(2));
        }
        let ordinary = tensors(&graph, &symbols, 1, Values::Ordinary).expect("the types are right");
        assert!(ordinary[0].floats().expect("floats").iter().all(|x| x.abs() <= 1.5));
        assert!(ordinary[1].ints().expect("integers").iter().all(|v| (0..2).contains(v)));
    }

    #[test]
    fn an_index_that_a_gather_reads_as_well_lies_in_both() {
        let text = "graph @u(s: 1..; %x: f32[s, 8], %c: f32[16, 8], %d: f32[9, 8], %i: i64[s], %j: i64[s]) {\n  \
                    %g = gather %d, %i {axis = 0}\n  %v = add %g, %x\n  %w = scatter %c, %j, %v {axis = 0}\n  \
                    %z = scatter %w, %i, %g {axis = 0}\n  return %z\n}\n";
        let graph: Graph = text.parse().expect("the text is right");
        let symbols = Symbols::from([("s".to_owned(), 40)]);
        for seed in 1..20 {
            let made = tensors(&graph, &symbols, seed, Values::Ordinary).expect("the types are right");
            let ints = |at: usize| made[at].ints().expect("integers");
            assert!(ints(3).iter().all(|v| (0..9).contains(v)), "{:?}", ints(3));
            assert!([-1, 16].iter().all(|outside| ints(4).contains(outside)), "{:?}", ints(4));
            assert!(ints(4).iter().all(|v| (-1..=16).contains(v)), "{:?}", ints(4));
        }
    }

    #[test]
    fn where_there_is_one_place_every_index_is_of_it() {
        let text = "graph @g(s: 1..; %x: f32[s, 8], %i: i64[s]) {\n  %g = gather %x, %i {axis = 0}\n  return %g\n}\n";
        let graph: Graph = text.parse().expect("the text is right");
        for (rows, most) in [(1, 0), (40, 1)] {
            let symbols = Symbols::from([("s".to_owned(), rows)]);
            let made = tensors(&graph, &symbols, 1, Values::Ordinary).expect("the types are right");
            assert_eq!(made[1].ints().expect("integers").iter().max(), Some(&most));
        }
    }

    #[test]
    fn what_memory_cannot_hold_is_refused() {
        let symbols = symbols(&graph(), &sizes(None, &[("t", i64::MAX)]), DEFAULT_ROWS).expect("in range");
        let error = tensors(&graph(), &symbols, 1, Values::Ordinary).expect_err("there are no such addresses");
        assert_eq!(error.to_string(), format!("input `i`: i64[{}] does not fit the address space", i64::MAX));
        assert_eq!(error.exit_code(), 2);
        // A machine that has all of these addresses has no such memory.
        let (rows, bytes) = (1i64 << 58, 8u64 << 58);
        let symbols = super::symbols(&graph(), &sizes(None, &[("t", rows)]), DEFAULT_ROWS).expect("in range");
        let error = tensors(&graph(), &symbols, 1, Values::Ordinary).expect_err("there is no such memory");
        assert_eq!(error.to_string(), format!("input `i`: no memory for i64[{rows}], which takes {bytes} bytes"));
        assert_eq!(error.exit_code(), 3);
    }
}
