//! A model file taken apart, changed and put together again.

use std::collections::BTreeMap;
use std::io::{Cursor, Read, Write};

use serde_json::Value;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::support::fixture;

/// The records of a file by name below its root folder.
#[derive(Clone)]
pub struct Model {
    pub records: BTreeMap<String, Vec<u8>>,
}

/// Where the model's graph is.
pub const GRAPH: &str = "models/model.json";
/// Where the tables of weights and constants are.
pub const WEIGHTS: &str = "data/weights/model_weights_config.json";

impl Model {
    /// A fixture with in-place ops, a buffer, a constant and one symbol.
    pub fn open() -> Self {
        let file = std::fs::read(fixture("overwritten_views.train.pt2")).expect("the fixture is readable");
        let mut zip = ZipArchive::new(Cursor::new(file)).expect("the fixture is an archive");
        let mut records = BTreeMap::new();
        for index in 0..zip.len() {
            let mut entry = zip.by_index(index).expect("the fixture has its entries");
            let name = entry.name().expect("names are text");
            let name = name.split_once('/').expect("records lie in a folder").1.to_owned();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).expect("the fixture is whole");
            records.insert(name, bytes);
        }
        Model { records }
    }

    /// The same without a record.
    pub fn without(mut self, name: &str) -> Self {
        assert!(self.records.remove(name).is_some(), "`{name}` is a record");
        self
    }

    /// The same with another record.
    pub fn with(mut self, name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.records.insert(name.to_owned(), bytes.into());
        self
    }

    /// The same with one value of a JSON record changed.
    pub fn changed(mut self, record: &str, pointer: &str, change: impl FnOnce(&mut Value)) -> Self {
        let bytes = self.records.get_mut(record).expect("it is a record");
        let mut json: Value = serde_json::from_slice(bytes).expect("the record is JSON");
        change(json.pointer_mut(pointer).unwrap_or_else(|| panic!("`{pointer}` is in `{record}`")));
        *bytes = json.to_string().into_bytes();
        self
    }

    /// The same with one value of the graph replaced, or a field added.
    pub fn graph(self, pointer: &str, value: Value) -> Self {
        let (object, key) = pointer.rsplit_once('/').expect("a path");
        self.changed(GRAPH, object, |place| match place {
            Value::Array(list) => list[key.parse::<usize>().expect("a place in a list")] = value,
            object => object[key] = value,
        })
    }

    /// The same with one value of the only weight's description replaced.
    pub fn weight(self, pointer: &str, value: Value) -> Self {
        self.changed(WEIGHTS, &format!("/config/cache{pointer}"), |place| *place = value)
    }

    /// The file.
    pub fn zip(&self) -> Vec<u8> {
        let named = self.records.iter().map(|(name, bytes)| (format!("model/{name}"), bytes.as_slice()));
        zip(&named.collect::<Vec<_>>(), CompressionMethod::Stored)
    }
}

/// An archive of entries.
pub fn zip(entries: &[(String, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(method);
    for (name, bytes) in entries {
        zip.start_file(name, options).expect("an archive in memory takes an entry");
        zip.write_all(bytes).expect("an archive in memory takes bytes");
    }
    zip.finish().expect("an archive in memory is finished").into_inner()
}

/// Where the entry of a record is in the directory of an archive.
pub fn directory_entry(file: &[u8], name: &str) -> usize {
    let name = format!("model/{name}");
    let is_entry = |at: &usize| file[*at..].starts_with(b"PK\x01\x02") && file[at + 46..].starts_with(name.as_bytes());
    (0..file.len()).find(is_entry).unwrap_or_else(|| panic!("`{name}` is in the directory"))
}

/// Where the bytes of a record are.
pub fn data_start(file: &[u8], record: &[u8]) -> usize {
    file.windows(record.len()).position(|w| w == record).expect("the record is stored")
}
