//! The parts of the exported-program JSON that an import needs, as plain data.
//!
//! Unknown object fields are skipped, and an argument of an unknown kind keeps its kind's name, so that a file of a
//! later minor version still reads: only a node that needs such an argument is affected.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize as DeriveDeserialize;
use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::name;

/// `models/NAME.json`.
#[derive(Debug, DeriveDeserialize)]
pub(super) struct Program {
    pub(super) graph_module: GraphModule,
    #[serde(default, deserialize_with = "name::by_name")]
    pub(super) range_constraints: BTreeMap<String, Range>,
    /// Absent in files of other writers.
    #[serde(default)]
    pub(super) torch_version: Option<String>,
}

/// Only the version, read before everything else.
#[derive(Debug, DeriveDeserialize)]
pub(super) struct VersionOnly {
    pub(super) schema_version: Version,
}

#[derive(Clone, Copy, Debug, DeriveDeserialize)]
pub(super) struct Version {
    pub(super) major: i64,
    pub(super) minor: i64,
}

#[derive(Debug, DeriveDeserialize)]
pub(super) struct Range {
    #[serde(default)]
    pub(super) min_val: Option<i64>,
    #[serde(default)]
    pub(super) max_val: Option<i64>,
}

#[derive(Debug, DeriveDeserialize)]
pub(super) struct GraphModule {
    pub(super) graph: GraphJson,
    pub(super) signature: Signature,
}

#[derive(Debug, DeriveDeserialize)]
pub(super) struct GraphJson {
    /// Absent where the signature alone lists them; so are outputs.
    #[serde(default)]
    pub(super) inputs: Option<Vec<Argument>>,
    #[serde(default)]
    pub(super) outputs: Option<Vec<Argument>>,
    pub(super) nodes: Vec<NodeJson>,
    #[serde(deserialize_with = "name::by_name")]
    pub(super) tensor_values: BTreeMap<String, TensorMeta>,
    #[serde(default, deserialize_with = "name::by_name")]
    pub(super) sym_int_values: BTreeMap<String, SymInt>,
}

/// A graph among the arguments of a node, with its own names.
#[derive(Debug, DeriveDeserialize)]
pub(super) struct SubGraph {
    pub(super) name: String,
    pub(super) graph: GraphJson,
}

#[derive(Debug, DeriveDeserialize)]
pub(super) struct NodeJson {
    #[serde(deserialize_with = "name::name")]
    pub(super) target: String,
    #[serde(default)]
    pub(super) inputs: Vec<NamedArgument>,
    #[serde(default)]
    pub(super) outputs: Vec<Argument>,
    #[serde(default)]
    pub(super) metadata: Metadata,
    /// Absent before schema 8.17.
    #[serde(default, deserialize_with = "name::some_name")]
    pub(super) name: Option<String>,
}

#[derive(Debug, Default, DeriveDeserialize)]
pub(super) struct Metadata {
    #[serde(default)]
    pub(super) stack_trace: Option<String>,
}

#[derive(Debug, DeriveDeserialize)]
pub(super) struct NamedArgument {
    #[serde(default, deserialize_with = "name::name")]
    pub(super) name: String,
    pub(super) arg: Argument,
}

#[derive(Debug, DeriveDeserialize)]
pub(super) struct TensorMeta {
    pub(super) dtype: i64,
    pub(super) sizes: Vec<SymInt>,
    #[serde(default)]
    pub(super) strides: Vec<SymInt>,
    #[serde(default)]
    pub(super) storage_offset: Option<SymInt>,
    #[serde(default)]
    pub(super) device: Option<Device>,
    #[serde(default)]
    pub(super) layout: Option<i64>,
}

/// A size: known, or an expression as text.
#[derive(Debug)]
pub(super) enum SymInt {
    Int(i64),
    Expr(String),
    Unknown(String),
}

#[derive(Debug, DeriveDeserialize)]
pub(super) struct TensorRef {
    #[serde(deserialize_with = "name::name")]
    pub(super) name: String,
}

/// A size among the arguments of a node: known, or a name of `sym_int_values`.
#[derive(Clone, Debug)]
pub(super) enum SymIntArg {
    Int(i64),
    Name(String),
}

/// One argument of a node; the kinds are those of schema 8.
#[derive(Debug)]
pub(super) enum Argument {
    None,
    Tensor(String),
    Tensors(Vec<String>),
    OptionalTensors(Vec<Option<String>>),
    Int(i64),
    Ints(Vec<i64>),
    Float(f64),
    Floats(Vec<f64>),
    Bool(bool),
    Bools(Vec<bool>),
    SymInt(SymIntArg),
    SymInts(Vec<SymIntArg>),
    ScalarType(i64),
    MemoryFormat(i64),
    Layout(i64),
    Device(String),
    Str(String),
    Operator(String),
    /// A graph that the node calls.
    Graph(Box<SubGraph>),
    /// A kind that this importer has no use for, by key.
    Unknown(String),
}

#[derive(Debug, DeriveDeserialize)]
pub(super) struct Signature {
    pub(super) input_specs: Vec<Spec>,
    pub(super) output_specs: Vec<Spec>,
}

/// A one-key object: what an input or output of the graph is.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) kind: String,
    pub(super) body: SpecBody,
}

#[derive(Debug, Default, DeriveDeserialize)]
pub(super) struct SpecBody {
    #[serde(default)]
    pub(super) arg: Option<SpecArg>,
    #[serde(default, deserialize_with = "name::some_name")]
    pub(super) parameter_name: Option<String>,
    #[serde(default, deserialize_with = "name::some_name")]
    pub(super) buffer_name: Option<String>,
    #[serde(default, deserialize_with = "name::some_name")]
    pub(super) tensor_constant_name: Option<String>,
    #[serde(default, deserialize_with = "name::some_name")]
    pub(super) user_input_name: Option<String>,
}

/// `{"name": …}` for weights, an [`Argument`] for user inputs and outputs.
#[derive(Debug)]
pub(super) enum SpecArg {
    Name(String),
    Argument(Argument),
}

/// `*_weights_config.json` and `*_constants_config.json`.
#[derive(Debug, DeriveDeserialize)]
pub(super) struct PayloadConfig {
    #[serde(deserialize_with = "name::by_name")]
    pub(super) config: BTreeMap<String, Payload>,
}

#[derive(Debug, DeriveDeserialize)]
pub(super) struct Payload {
    pub(super) path_name: String,
    #[serde(default)]
    pub(super) use_pickle: bool,
    #[serde(default)]
    pub(super) tensor_meta: Option<TensorMeta>,
}

/// What an object of one key means; the key says which variant.
trait FromKey: Sized {
    const EXPECTED: &'static str;

    fn from_key<'de, A: MapAccess<'de>>(key: &str, map: &mut A) -> Result<Self, A::Error>;
}

struct OneKey<T>(PhantomData<T>);

impl<'de, T: FromKey> Visitor<'de> for OneKey<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let key: String = map.next_key()?.ok_or_else(|| de::Error::custom(format!("{} has no key", T::EXPECTED)))?;
        let value = T::from_key(&key, &mut map)?;
        match map.next_key::<String>()? {
            None => Ok(value),
            Some(second) => Err(de::Error::custom(format_args!("{} is both `{key}` and `{second}`", T::EXPECTED))),
        }
    }
}

macro_rules! one_key {
    ($($name:ty),*) => {
        $( impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_map(OneKey(PhantomData))
            }
        } )*
    };
}

one_key!(Argument, SymInt, SymIntArg, OptionalTensor, Spec, SpecArg);

impl FromKey for Argument {
    const EXPECTED: &'static str = "an argument";

    fn from_key<'de, A: MapAccess<'de>>(key: &str, map: &mut A) -> Result<Self, A::Error> {
        let names = |refs: Vec<TensorRef>| refs.into_iter().map(|r| r.name).collect();
        Ok(match key {
            "as_none" => {
                map.next_value::<IgnoredAny>()?;
                Argument::None
            }
            "as_tensor" => Argument::Tensor(map.next_value::<TensorRef>()?.name),
            "as_tensors" => Argument::Tensors(names(map.next_value()?)),
            "as_optional_tensor" => match map.next_value::<OptionalTensor>()?.0 {
                Some(name) => Argument::Tensor(name),
                None => Argument::None,
            },
            "as_optional_tensors" => {
                let list: Vec<OptionalTensor> = map.next_value()?;
                Argument::OptionalTensors(list.into_iter().map(|t| t.0).collect())
            }
            "as_int" => Argument::Int(map.next_value()?),
            "as_ints" => Argument::Ints(map.next_value()?),
            "as_float" => Argument::Float(map.next_value::<Float>()?.0),
            "as_floats" => Argument::Floats(map.next_value::<Vec<Float>>()?.into_iter().map(|f| f.0).collect()),
            "as_bool" => Argument::Bool(map.next_value()?),
            "as_bools" => Argument::Bools(map.next_value()?),
            "as_sym_int" => Argument::SymInt(map.next_value()?),
            "as_sym_ints" => Argument::SymInts(map.next_value()?),
            "as_scalar_type" => Argument::ScalarType(map.next_value()?),
            "as_memory_format" => Argument::MemoryFormat(map.next_value()?),
            "as_layout" => Argument::Layout(map.next_value()?),
            "as_device" => Argument::Device(map.next_value::<Device>()?.to_string()),
            "as_string" => Argument::Str(map.next_value()?),
            "as_graph" => Argument::Graph(Box::new(map.next_value()?)),
            "as_operator" => Argument::Operator(map.next_value()?),
            other => {
                map.next_value::<IgnoredAny>()?;
                Argument::Unknown(other.to_owned())
            }
        })
    }
}

impl FromKey for SymInt {
    const EXPECTED: &'static str = "a size";

    fn from_key<'de, A: MapAccess<'de>>(key: &str, map: &mut A) -> Result<Self, A::Error> {
        Ok(match key {
            "as_int" => SymInt::Int(map.next_value()?),
            "as_expr" => SymInt::Expr(map.next_value::<Expr>()?.expr_str),
            other => {
                map.next_value::<IgnoredAny>()?;
                SymInt::Unknown(other.to_owned())
            }
        })
    }
}

impl FromKey for SymIntArg {
    const EXPECTED: &'static str = "a size argument";

    fn from_key<'de, A: MapAccess<'de>>(key: &str, map: &mut A) -> Result<Self, A::Error> {
        match key {
            "as_int" => map.next_value().map(SymIntArg::Int),
            "as_name" => map.next_value().map(SymIntArg::Name),
            other => Err(de::Error::unknown_field(other, &["as_int", "as_name"])),
        }
    }
}

struct OptionalTensor(Option<String>);

impl FromKey for OptionalTensor {
    const EXPECTED: &'static str = "an optional tensor";

    fn from_key<'de, A: MapAccess<'de>>(key: &str, map: &mut A) -> Result<Self, A::Error> {
        if key == "as_tensor" {
            return Ok(OptionalTensor(Some(map.next_value::<TensorRef>()?.name)));
        }
        map.next_value::<IgnoredAny>()?;
        Ok(OptionalTensor(None))
    }
}

impl FromKey for Spec {
    const EXPECTED: &'static str = "an input or output specification";

    fn from_key<'de, A: MapAccess<'de>>(key: &str, map: &mut A) -> Result<Self, A::Error> {
        Ok(Spec { kind: key.to_owned(), body: map.next_value()? })
    }
}

impl FromKey for SpecArg {
    const EXPECTED: &'static str = "a specified argument";

    fn from_key<'de, A: MapAccess<'de>>(key: &str, map: &mut A) -> Result<Self, A::Error> {
        match key {
            "name" => map.next_value().map(SpecArg::Name),
            _ => Argument::from_key(key, map).map(SpecArg::Argument),
        }
    }
}

#[derive(DeriveDeserialize)]
struct Expr {
    expr_str: String,
}

/// Where a tensor lies.
#[derive(PartialEq, Eq, Debug, DeriveDeserialize)]
pub(super) struct Device {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    index: Option<i64>,
}

impl Device {
    /// Whether it is the host.
    pub(super) fn is_cpu(&self) -> bool {
        self.kind == "cpu"
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        self.index.map_or(Ok(()), |index| write!(f, ":{index}"))
    }
}

/// A number, or one of the words that JSON has no number for.
struct Float(f64);

impl<'de> Deserialize<'de> for Float {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FloatVisitor;

        impl Visitor<'_> for FloatVisitor {
            type Value = Float;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, \"Infinity\", \"-Infinity\" or \"NaN\"")
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Float, E> {
                Ok(Float(value))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Float, E> {
                Ok(Float(value as f64))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Float, E> {
                Ok(Float(value as f64))
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Float, E> {
                match word {
                    "Infinity" => Ok(Float(f64::INFINITY)),
                    "-Infinity" => Ok(Float(f64::NEG_INFINITY)),
                    "NaN" => Ok(Float(f64::NAN)),
                    _ => Err(de::Error::invalid_value(de::Unexpected::Str(word), &self)),
                }
            }
        }

        deserializer.deserialize_any(FloatVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn argument(json: &str) -> String {
        serde_json::from_str::<Argument>(json).map_or_else(|e| format!("error: {e}"), |a| format!("{a:?}"))
    }

    #[test]
    fn arguments_read_by_key() {
        assert_eq!(argument(r#"{"as_float":"-Infinity"}"#), "Float(-inf)");
        assert_eq!(argument(r#"{"as_float":1e-06}"#), "Float(1e-6)");
        assert_eq!(argument(r#"{"as_float":3}"#), "Float(3.0)");
        assert_eq!(argument(r#"{"as_sym_ints":[{"as_name":"s"},{"as_int":4}]}"#), r#"SymInts([Name("s"), Int(4)])"#);
        assert_eq!(argument(r#"{"as_device":{"type":"cuda","index":1}}"#), r#"Device("cuda:1")"#);
        assert_eq!(
            argument(r#"{"as_optional_tensors":[{"as_none":true},{"as_tensor":{"name":"i"}}]}"#),
            r#"OptionalTensors([None, Some("i")])"#
        );
        assert_eq!(argument(r#"{"as_complex":{"real":1.0,"imag":0.0}}"#), r#"Unknown("as_complex")"#);
        assert!(argument(r#"{"as_float":"seven"}"#).starts_with("error"));
        assert!(argument("{}").starts_with("error"));
        assert!(argument(r#"{"as_int":3,"as_bool":true}"#).contains("is both `as_int` and `as_bool`"));
    }

    #[test]
    fn names_are_bounded() {
        let named = |name: &str| argument(&format!(r#"{{"as_tensor":{{"name":"{name}"}}}}"#));
        assert_eq!(named("x"), r#"Tensor("x")"#);
        assert!(named(&"n".repeat(70_000)).contains("a name of 70000 bytes, more than"));
        assert!(named(r"a\u001b[31m").contains(r#"the name "a\u{1b}[31m" has control characters"#));
    }

    #[test]
    fn floats_are_read_to_the_bit() {
        let Ok(Argument::Float(v)) = serde_json::from_str(r#"{"as_float":9.999999974752427e-07}"#) else {
            panic!("a float argument");
        };
        assert_eq!(v.to_bits(), 9.999999974752427e-07f64.to_bits());
    }
}
