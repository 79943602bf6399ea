//! The ops, with the parameters that a region's inputs may be and the values that are tried of the others.

use fusewright_abi::DType;
use fusewright_graph::import::Plain;
use fusewright_graph::{Dim, TensorType};

/// What an input must be like to be a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// Rows of floats: the first of them says what rows are.
    Rows,
    /// Rows of integers.
    Sums,
    /// One number per lane of the rows, or one for all.
    Lanes,
    /// One number per row, with or without an axis of one.
    Tokens,
    /// Anything.
    Any,
}

/// An op that may replace a region.
pub(super) struct VendorOp {
    /// As the framework spells it.
    pub name: &'static str,
    /// As its row of the importer's table is called.
    pub target: &'static str,
    /// Parameters that are tensors.
    pub tensors: &'static [(&'static str, Role)],
    /// Those that may be left out.
    pub optional: &'static [(&'static str, Role)],
    /// The parameter that is a small number inside a root, if there is one.
    pub epsilon: Option<&'static str>,
    /// Other parameters, and the values that are tried.
    pub choices: &'static [(&'static str, &'static [Plain])],
    /// Arguments that are always the same.
    pub fixed: &'static [(&'static str, Plain)],
    /// Names of the results.
    pub results: &'static [&'static str],
    /// Types of the results, by the type of the rows.
    pub stated: fn(&TensorType) -> Vec<TensorType>,
}

const BOTH: &[Plain] = &[Plain::Bool(true), Plain::Bool(false)];
const ROW_NORM: &[(&str, Role)] = &[("x1", Role::Rows), ("x2", Role::Rows), ("gamma", Role::Lanes)];

/// As many lanes of another dtype.
fn like(rows: &TensorType, dtype: DType) -> TensorType {
    TensorType::new(dtype, rows.shape.clone())
}

/// One number of a dtype per row.
fn tokens(rows: &TensorType) -> TensorType {
    let outer = rows.shape.split_last().map_or(&[][..], |(_, outer)| outer);
    TensorType::new(DType::F32, outer.iter().cloned())
}

/// Codes of half as many lanes.
fn half(rows: &TensorType) -> TensorType {
    let mut shape: Vec<Dim> = rows.shape.clone();
    if let Some(half) = shape.pop().and_then(|lanes| lanes.exact_div(&Dim::constant(2))) {
        shape.push(half);
    }
    TensorType::new(DType::I8, shape)
}

/// Every op, in the order in which they are tried.
pub(super) const OPS: &[VendorOp] = &[
    VendorOp {
        name: "npu_add_rms_norm_dynamic_quant",
        target: "npu.npu_add_rms_norm_dynamic_quant",
        tensors: ROW_NORM,
        optional: &[("smooth_scale1", Role::Lanes), ("smooth_scale2", Role::Lanes)],
        epsilon: Some("epsilon"),
        choices: &[],
        fixed: &[],
        results: &["y1", "y2", "x", "scale1", "scale2"],
        stated: |rows| {
            let codes = like(rows, DType::I8);
            vec![codes.clone(), codes, rows.clone(), tokens(rows), tokens(rows)]
        },
    },
    VendorOp {
        name: "npu_add_rms_norm_quant",
        target: "npu.npu_add_rms_norm_quant",
        tensors: &[("x1", Role::Rows), ("x2", Role::Rows), ("gamma", Role::Lanes), ("scales1", Role::Lanes)],
        optional: &[
            ("zero_points1", Role::Lanes),
            ("beta", Role::Lanes),
            ("scales2", Role::Lanes),
            ("zero_points2", Role::Lanes),
        ],
        epsilon: Some("epsilon"),
        choices: &[("div_mode", BOTH)],
        fixed: &[],
        results: &["y1", "y2", "x"],
        stated: |rows| vec![like(rows, DType::I8), like(rows, DType::I8), rows.clone()],
    },
    VendorOp {
        name: "npu_add_rms_norm",
        target: "npu.npu_add_rms_norm",
        tensors: ROW_NORM,
        optional: &[],
        epsilon: Some("epsilon"),
        choices: &[],
        fixed: &[],
        results: &["y", "rstd", "x"],
        stated: |rows| vec![rows.clone(), tokens(rows), rows.clone()],
    },
    VendorOp {
        name: "npu_rms_norm",
        target: "npu.npu_rms_norm",
        tensors: &[("self", Role::Rows), ("gamma", Role::Lanes)],
        optional: &[],
        epsilon: Some("epsilon"),
        choices: &[],
        fixed: &[],
        results: &["y", "rstd"],
        stated: |rows| vec![rows.clone(), tokens(rows)],
    },
    VendorOp {
        name: "npu_dequant_swiglu_quant",
        target: "npu.npu_dequant_swiglu_quant",
        tensors: &[("x", Role::Sums)],
        optional: &[
            ("weight_scale", Role::Lanes),
            ("activation_scale", Role::Tokens),
            ("bias", Role::Lanes),
            ("quant_scale", Role::Any),
            ("quant_offset", Role::Any),
        ],
        epsilon: None,
        choices: &[("activate_left", BOTH), ("quant_mode", &[Plain::Int(0), Plain::Int(1)])],
        fixed: &[],
        results: &["y", "scale"],
        stated: |rows| vec![half(rows), tokens(rows)],
    },
    VendorOp {
        name: "npu_swiglu_quant",
        target: "npu.npu_swiglu_quant",
        tensors: &[("x", Role::Rows)],
        optional: &[("smooth_scales", Role::Any), ("offsets", Role::Any)],
        epsilon: None,
        choices: &[("activate_left", BOTH), ("quant_mode", &[Plain::Int(0), Plain::Int(1)])],
        fixed: &[],
        results: &["y", "scale"],
        stated: |rows| vec![half(rows), tokens(rows)],
    },
    VendorOp {
        name: "npu_swiglu",
        target: "npu.npu_swiglu",
        tensors: &[("self", Role::Rows)],
        optional: &[],
        epsilon: None,
        choices: &[],
        fixed: &[],
        results: &["y"],
        stated: |rows| vec![TensorType::new(rows.dtype, half(rows).shape)],
    },
    VendorOp {
        name: "npu_dynamic_quant",
        target: "npu.npu_dynamic_quant",
        tensors: &[("input", Role::Rows)],
        optional: &[("smooth_scales", Role::Lanes)],
        epsilon: None,
        choices: &[],
        fixed: &[],
        results: &["y", "scale"],
        stated: |rows| vec![like(rows, DType::I8), tokens(rows)],
    },
    VendorOp {
        name: "npu_quantize",
        target: "npu.npu_quantize",
        tensors: &[("self", Role::Rows), ("scales", Role::Lanes)],
        optional: &[("zero_points", Role::Lanes)],
        epsilon: None,
        choices: &[("div_mode", BOTH)],
        fixed: &[("axis", Plain::Int(-1))],
        results: &["y"],
        stated: |rows| vec![like(rows, DType::I8)],
    },
    VendorOp {
        name: "npu_rotary_mul",
        target: "npu.npu_rotary_mul",
        tensors: &[("self", Role::Rows), ("r1", Role::Any), ("r2", Role::Any)],
        optional: &[],
        epsilon: None,
        choices: &[("rotary_mode", &[Plain::Word("half"), Plain::Word("interleave")])],
        fixed: &[],
        results: &["y"],
        stated: |rows| vec![rows.clone()],
    },
];

impl Role {
    /// Whether an input of type `ty` may be one where `rows` are the rows; they are `ty` itself for the first parameter.
    pub fn takes(self, ty: &TensorType, rows: &TensorType) -> bool {
        let lanes = rows.shape.last();
        match self {
            Role::Rows => ty == rows && ty.dtype.is_float() && ty.rank() >= 2,
            Role::Sums => ty == rows && ty.dtype == DType::I32 && ty.rank() >= 2,
            Role::Lanes => ty.elements().as_const() == Some(1) || Some(&ty.elements()) == lanes,
            Role::Tokens => ty.elements() == tokens(rows).elements(),
            Role::Any => ty.dtype.is_float(),
        }
    }
}
