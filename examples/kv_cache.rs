//! Decodes a few tokens over a cache of keys and values that is written in place.
//!
//! `cargo run --example kv_cache`. One compiled program takes a prompt of several tokens and then one token after the
//! other. It normalises queries and keys, writes keys and values into the cache, and attends to everything up to each
//! token's position.

use std::process::ExitCode;

use fusewright::graph::ops::{Composite, RmsNorm, RmsRounding};
use fusewright::graph::prim::Sdpa;
use fusewright::graph::{Builder, Dim, Graph, Op, Prim, ScalarFn, TensorType, TypeError, Value};
use fusewright::inputs::Random;
use fusewright::{Argument, DType, Error, HostTensor, Options, Program, Target, compile};
use half::bf16;

/// Heads of queries, keys and values, and lanes of a head.
const HEADS: i64 = 8;
const LANES: i64 = 64;
/// Tokens that the cache has room for.
const SLOTS: i64 = 1024;
/// Tokens of each call: a prompt, then one at a time.
const CALLS: [usize; 4] = [5, 1, 1, 1];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// Attention of new tokens to all tokens in the cache, themselves included.
fn decode_step() -> Result<Graph, TypeError> {
    let b = Builder::new("decode_step");
    let new = b.symbol("new", 1, Some(SLOTS));
    let rows = TensorType::new(DType::BF16, [HEADS.into(), new.clone(), LANES.into()]);
    let kept = TensorType::new(DType::BF16, [HEADS.into(), SLOTS.into(), LANES.into()]);
    let [query, key, value] = ["query", "key", "value"].map(|name| b.input(name, rows.clone()));
    let weight = b.input("weight", TensorType::new(DType::BF16, [LANES.into()]));
    let position = b.input("position", TensorType::new(DType::I64, [new.clone()]));
    let [keys, values] = ["keys", "values"].map(|name| b.input(name, kept.clone()));

    let norm = |x: Value| -> Result<Value, TypeError> {
        let norm = RmsNorm::new(f64::from(1e-6f32), RmsRounding::Once);
        Ok(b.composite(Composite::new(norm), &[x, weight])?[0])
    };
    let write = |cache: Value, rows: Value| -> Result<Value, TypeError> {
        Ok(b.op(Op::Prim(Prim::Scatter { axis: 1 }), &[cache, position, rows])?[0])
    };
    let (new_keys, new_values) = (write(keys, norm(key)?)?, write(values, value)?);

    let slots = b.prim(Prim::Iota { dtype: DType::I64, shape: vec![1.into(), SLOTS.into()], axis: 1 }, &[])?;
    let seen = b.map(ScalarFn::Le, &[slots, b.reshape(position, vec![new.clone(), 1.into()])?])?;
    let batch = |x: Value, tokens: &Dim| b.reshape(x, vec![1.into(), HEADS.into(), tokens.clone(), LANES.into()]);
    let all = Dim::constant(SLOTS);
    let (q, k, v) = (batch(norm(query)?, &new)?, batch(new_keys, &all)?, batch(new_values, &all)?);
    let scale = 1.0 / (LANES as f64).sqrt();
    let attention = Sdpa { causal: false, wide: false, scale_bits: scale.to_bits() };
    b.output(b.prim(Prim::Sdpa(attention), &[q, k, v, seen])?);
    // These two outputs are the new values of inputs.
    b.add_output(new_keys, Some("keys".to_owned()));
    b.add_output(new_values, Some("values".to_owned()));
    Ok(b.finish())
}

/// One call reads these beside the cache.
struct Tokens {
    query: HostTensor,
    key: HostTensor,
    value: HostTensor,
    position: HostTensor,
}

impl Tokens {
    fn new(random: &mut Random, first: usize, count: usize) -> Tokens {
        let shape = [HEADS as usize, count, LANES as usize];
        let mut rows = || {
            let values = (0..shape.iter().product()).flat_map(|_| bf16::from_f64(random.unit()).to_le_bytes());
            HostTensor { dtype: DType::BF16, shape: shape.to_vec(), bytes: values.collect() }
        };
        let (query, key, value) = (rows(), rows(), rows());
        let positions = (first..first + count).flat_map(|position| (position as i64).to_le_bytes());
        let position = HostTensor { dtype: DType::I64, shape: vec![count], bytes: positions.collect() };
        Tokens { query, key, value, position }
    }
}

/// Keys and values of all tokens so far.
#[derive(Clone, PartialEq)]
struct Cache {
    keys: HostTensor,
    values: HostTensor,
}

/// A call that overwrites the cache; the attention, and the bytes that were copied for the cache.
fn in_place(
    program: &Program,
    tokens: &Tokens,
    weight: &HostTensor,
    cache: &mut Cache,
) -> Result<(HostTensor, usize), Error> {
    let Tokens { query, key, value, position } = tokens;
    let read = [query, key, value, weight, position].map(Argument::Read);
    let Cache { keys, values } = cache;
    let mut arguments: Vec<Argument<'_>> = read.into_iter().collect();
    arguments.extend([Argument::InOut(keys), Argument::InOut(values)]);
    let copied = program.placement(&arguments)?.copied();
    let attention = program.run_in_place(&mut arguments, 1)?.swap_remove(0);
    let attention = attention.ok_or_else(|| Error::Internal("attention overwrites an input".to_owned()))?;
    Ok((attention, copied))
}

/// A call that reads the cache and gives a new one; the attention, and the bytes that were copied for the cache.
fn copying(
    program: &Program,
    tokens: &Tokens,
    weight: &HostTensor,
    cache: &mut Cache,
) -> Result<(HostTensor, usize), Error> {
    let Tokens { query, key, value, position } = tokens;
    let arguments = [query, key, value, weight, position, &cache.keys, &cache.values];
    let copied = program.placement(&arguments.map(Argument::Read))?.copied();
    let [attention, keys, values]: [HostTensor; 3] = program
        .run(&arguments, 1)?
        .try_into()
        .map_err(|results: Vec<_>| Error::Internal(format!("{} results of three", results.len())))?;
    *cache = Cache { keys, values };
    Ok((attention, copied))
}

fn run() -> Result<(), Error> {
    let graph = decode_step().map_err(|e| Error::Input(e.to_string()))?;
    let program = compile(&graph, &Target::Cpu, &Options::default())?.program;
    let counts = program.counts();
    println!("one call: {} kernels, {} attention, {} copies", counts.kernels, counts.attentions, counts.copies);

    let empty = || HostTensor::zeros(DType::BF16, &[HEADS as usize, SLOTS as usize, LANES as usize]);
    let weight = bf16::ONE.to_le_bytes().repeat(LANES as usize);
    let weight = HostTensor { dtype: DType::BF16, shape: vec![LANES as usize], bytes: weight };
    let mut cache = Cache { keys: empty(), values: empty() };
    let mut copied_cache = cache.clone();
    let addresses = [cache.keys.bytes.as_ptr(), cache.values.bytes.as_ptr()];
    println!("the cache has {} bytes", cache.keys.bytes.len() + cache.values.bytes.len());

    let (mut random, mut position) = (Random::new(1, 0), 0);
    for count in CALLS {
        let tokens = Tokens::new(&mut random, position, count);
        position += count;
        let (attention, copied) = in_place(&program, &tokens, &weight, &mut cache)?;
        let (expected, otherwise) = copying(&program, &tokens, &weight, &mut copied_cache)?;
        if attention != expected || cache != copied_cache {
            return Err(Error::Internal(format!("position {position}: a call in place gives other bits")));
        }
        if [cache.keys.bytes.as_ptr(), cache.values.bytes.as_ptr()] != addresses || copied != 0 {
            return Err(Error::Internal(format!("position {position}: the cache was copied")));
        }
        println!(
            "{position} tokens, {count} new: {copied} bytes of the cache copied in place, else {otherwise}; the same bits"
        );
    }
    Ok(())
}
