//! Mutated `.pt2` files: records changed as JSON values, as text, and the container as bytes. What the importer accepts
//! goes on through verifier, passes, regions and lowering.

use std::io::{Cursor, Write};

use bytes::Bytes;
use fusewright_graph::import::{self, Archive};
use serde_json::Value;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::mutate::{self, Random};
use crate::{Reader, pipeline};

const FIXTURES: [&str; 3] =
    ["qwen3_tiny_layer_bf16.train.pt2", "qwen3_tiny_layer_bf16.core.pt2", "aten_silu_grp128_h12288_bfloat16.train.pt2"];

/// A model taken apart: its file, and the records that are not mutated by name.
struct Model {
    file: Bytes,
    json: Vec<(String, Value)>,
    rest: Vec<(String, Bytes)>,
}

fn models() -> Vec<Model> {
    let open = |name: &&str| {
        let path = format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
        let file: Bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}")).into();
        let archive = Archive::open(&file).expect("a fixture is an archive");
        let records = archive.names().map(|name| (name.to_owned(), archive.require(name).expect("a listed record")));
        let (json, rest): (Vec<_>, Vec<_>) = records.partition(|(name, _)| name.ends_with(".json"));
        let parse = |(name, bytes): (String, Bytes)| (name, serde_json::from_slice(&bytes).expect("a JSON record"));
        Model { file, json: json.into_iter().map(parse).collect(), rest }
    };
    FIXTURES.iter().map(open).collect()
}

/// An archive of the given records below one root folder.
fn archive(records: &[(String, Vec<u8>)]) -> Bytes {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, bytes) in records {
        zip.start_file(format!("model/{name}"), stored).expect("an archive in memory takes an entry");
        zip.write_all(bytes).expect("an archive in memory takes bytes");
    }
    zip.finish().expect("an archive in memory is finished").into_inner().into()
}

/// Replaces, drops or doubles one value somewhere in `json`.
fn change(random: &mut Random, json: &mut Value) {
    let donor = pick(random, json).clone();
    let hostile = [
        Value::Null,
        Value::from(0),
        Value::from(-1),
        Value::from(i64::MAX),
        Value::from(i64::MIN),
        Value::from(u64::MAX),
        Value::from(0.5),
        Value::from(""),
        Value::from("s0*s0"),
        Value::Array(Vec::new()),
        Value::Object(serde_json::Map::new()),
    ];
    let new = if random.below(2) == 0 { donor } else { random.pick(&hostile).clone() };
    let place = pick(random, json);
    match place {
        Value::Array(items) if !items.is_empty() => {
            let at = random.below(items.len());
            match random.below(4) {
                0 => drop(items.remove(at)),
                1 => items.insert(at, new),
                2 => items.push(items[at].clone()),
                _ => items[at] = new,
            }
        }
        Value::Object(fields) if !fields.is_empty() => {
            let key = fields.keys().nth(random.below(fields.len())).expect("a field below the count").clone();
            match random.below(3) {
                0 => drop(fields.remove(&key)),
                _ => drop(fields.insert(key, new)),
            }
        }
        Value::Number(number) if random.below(2) == 0 => {
            let step = [-1, 1][random.below(2)];
            *place = Value::from(number.as_i64().unwrap_or(1).saturating_add(step));
        }
        _ => *place = new,
    }
}

/// A value somewhere in `json`, more often a deep one.
fn pick<'a>(random: &mut Random, json: &'a mut Value) -> &'a mut Value {
    let leaf = match &*json {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => true,
    };
    if leaf || random.below(12) == 0 {
        return json;
    }
    match json {
        Value::Array(items) => {
            let at = random.below(items.len());
            pick(random, &mut items[at])
        }
        Value::Object(fields) => {
            let at = random.below(fields.len());
            pick(random, fields.values_mut().nth(at).expect("a field below the count"))
        }
        leaf => leaf,
    }
}

/// A file with broken bytes: some overwritten, or cut off.
fn broken_bytes(random: &mut Random, file: &Bytes) -> Bytes {
    let mut bytes = file.to_vec();
    for _ in 0..=random.below(8) {
        // The directory of an archive is at its end.
        let reach = 1 << random.below(16);
        let near_end = bytes.len().saturating_sub(1 + random.below(reach));
        let at = if random.below(2) == 0 { near_end } else { random.below(bytes.len()) };
        match random.below(8) {
            0 => bytes.truncate(at),
            _ if at < bytes.len() => bytes[at] = *random.pick(&[0, 1, 0x7f, 0x80, 0xff, b'0', b'"', b'[']),
            _ => {}
        }
    }
    bytes.into()
}

fn mutant(random: &mut Random, models: &[Model]) -> Bytes {
    let model = random.pick(models);
    let how = random.below(8);
    if how == 0 {
        return broken_bytes(random, &model.file);
    }
    let mut json = model.json.clone();
    let at = random.below(json.len());
    let (main, _) = json
        .iter()
        .enumerate()
        .map(|(i, (name, _))| (i, name))
        .max_by_key(|(_, name)| name.starts_with("models/"))
        .expect("a model");
    let at = if random.below(4) == 0 { at } else { main };
    if how > 1 {
        for _ in 0..=random.below(3) {
            change(random, &mut json[at].1);
        }
    }
    let mut records: Vec<(String, Vec<u8>)> =
        json.into_iter().map(|(name, value)| (name, value.to_string().into_bytes())).collect();
    if how == 1 {
        let text = String::from_utf8_lossy(&records[at].1).into_owned();
        records[at].1 = mutate::text(random, &[text]).into_bytes();
    }
    records.extend(model.rest.iter().map(|(name, bytes)| (name.clone(), bytes.to_vec())));
    archive(&records)
}

/// The importer.
pub const MODELS: Reader = Reader { name: "model", ending: "pt2", read };

fn read(file: &[u8]) -> bool {
    let Ok(graph) = import::pt2(&Bytes::copy_from_slice(file)) else { return false };
    pipeline::graph(&graph);
    true
}

#[test]
fn model_files() {
    let models = models();
    MODELS.run(400, |random| mutant(random, &models));
}
