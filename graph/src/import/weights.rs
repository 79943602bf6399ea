//! Parameters, buffers and tensor constants: raw storages in the archive, described by two configuration records.
//!
//! A tensor is a strided view of a storage; tied weights and views share a storage. A storage of zero bytes stands for
//! a weight whose data was left out of the file.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use fusewright_abi::DType;

use super::archive::Archive;
use super::schema::{Payload, PayloadConfig, SymInt, TensorMeta};
use crate::checksum::Checksum;
use crate::diag::Diagnostic;
use crate::graph::Weight;
use crate::ty::TensorType;

/// The payload tables of one model.
pub(super) struct Weights<'a> {
    /// None of a program that has no weights.
    archive: Option<&'a Archive>,
    by_name: BTreeMap<String, (String, Payload)>,
    /// Storages that were handed out, so that weights that share one share its checksum.
    storages: RefCell<BTreeMap<String, (Bytes, Arc<Checksum>)>>,
}

impl<'a> Weights<'a> {
    /// Those of a program that has none.
    pub(super) fn none() -> Self {
        Weights { archive: None, by_name: BTreeMap::new(), storages: RefCell::default() }
    }

    /// Says whether the program is a file.
    pub(super) fn is_file(&self) -> bool {
        self.archive.is_some()
    }

    /// Reads the weight and constant tables of `model`.
    pub(super) fn open(archive: &'a Archive, model: &str) -> Result<Self, Diagnostic> {
        let mut by_name = BTreeMap::new();
        for folder in ["weights", "constants"] {
            let config = format!("data/{folder}/{model}_{folder}_config.json");
            let Some(bytes) = archive.get(&config)? else {
                let pickle = format!("data/{folder}/{model}.pt");
                if archive.names().any(|name| name == pickle) {
                    return Err(Diagnostic::new("import.weight", format!("record `{pickle}` holds pickled weights"))
                        .with_help("re-save the model with torch 2.9 or later"));
                }
                continue;
            };
            let table: PayloadConfig = super::parse_json(&config, &bytes)?;
            by_name.extend(table.config.into_iter().map(|(name, payload)| {
                let record = format!("data/{folder}/{}", payload.path_name);
                (name, (record, payload))
            }));
        }
        Ok(Weights { archive: Some(archive), by_name, storages: RefCell::default() })
    }

    /// The data of the weight `name`, which the graph takes as a `ty`; `None` if the file has none.
    pub(super) fn get(&self, name: &str, ty: &TensorType) -> Result<Option<Weight>, Diagnostic> {
        let refuse = |message: String| Diagnostic::new("import.weight", format!("weight `{name}` {message}"));
        let unlisted = || refuse("is in no table of weights or constants".to_owned());
        let (record, payload) = self.by_name.get(name).ok_or_else(unlisted)?;
        let Some(meta) = payload.tensor_meta.as_ref().filter(|_| !payload.use_pickle) else { return Ok(None) };
        let (storage, checksum) = self.storage(name, record)?;
        let stated = super::types::tensor_type(meta).map_err(&refuse)?;
        if stated != *ty {
            return Err(refuse(format!("is {stated} in its table and {ty} in the graph")));
        }
        if storage.is_empty() && stated.elements().as_const() != Some(0) {
            return Ok(None);
        }
        let (offset, strides) = layout(meta, &stated, storage.len()).map_err(refuse)?;
        Ok(Some(Weight { storage, offset, strides, checksum: Some(checksum) }))
    }

    fn storage(&self, name: &str, record: &str) -> Result<(Bytes, Arc<Checksum>), Diagnostic> {
        if let Some((bytes, checksum)) = self.storages.borrow().get(record) {
            return Ok((bytes.clone(), Arc::clone(checksum)));
        }
        let missing = || {
            let message = format!("weight `{name}` lies in record `{record}`, which the archive does not have");
            Diagnostic::new("import.weight", message)
        };
        let record_bytes = self.archive.map_or(Ok(None), |archive| archive.weight(record))?;
        let (bytes, checksum) = record_bytes.ok_or_else(missing)?;
        let stored = (bytes, Arc::new(checksum));
        self.storages.borrow_mut().insert(record.to_owned(), stored.clone());
        Ok(stored)
    }
}

/// Offset and strides in elements, checked against the storage.
fn layout(meta: &TensorMeta, ty: &TensorType, bytes: usize) -> Result<(usize, Vec<usize>), String> {
    let known = |what: &str, size: &SymInt| match size {
        SymInt::Int(n) => usize::try_from(*n).map_err(|_| format!("has {what} {n}")),
        _ => Err(format!("has a symbolic {what}")),
    };
    let mut offset = meta.storage_offset.as_ref().map_or(Ok(0), |o| known("offset", o))?;
    let mut strides: Vec<usize> = meta.strides.iter().map(|s| known("stride", s)).collect::<Result<_, _>>()?;
    let mut sizes: Vec<usize> = meta.sizes.iter().map(|s| known("size", s)).collect::<Result<_, _>>()?;
    if super::types::is_complex(meta) {
        // Two parts lie side by side.
        offset = offset.saturating_mul(2);
        strides.iter_mut().for_each(|stride| *stride = stride.saturating_mul(2));
        strides.push(1);
        sizes.push(2);
    }
    if strides.len() != sizes.len() {
        return Err(format!("has {} sizes and {} strides", sizes.len(), strides.len()));
    }
    let outside = || format!("of type {ty} with strides {strides:?} at {offset} reaches beyond its {bytes} bytes");
    if !sizes.contains(&0) {
        let last = sizes.iter().zip(&strides).try_fold(offset, |at, (size, stride)| {
            (size - 1).checked_mul(*stride).and_then(|step| at.checked_add(step))
        });
        let end = last.and_then(|last| last.checked_add(1)).and_then(|n| n.checked_mul(element_bytes(ty.dtype)));
        if end.is_none_or(|end| end > bytes) {
            return Err(outside());
        }
    }
    Ok((offset, strides))
}

fn element_bytes(dtype: DType) -> usize {
    dtype.bytes_for(1)
}
