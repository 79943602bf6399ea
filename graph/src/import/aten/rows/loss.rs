//! Rows of losses.

use super::row;
use crate::import::aten::{entropy, loss};
use crate::import::table::Row;

pub(super) const TABLE: &[Row] = &[
    row("aten.mse_loss", "self, target, reduction=1", loss::mse),
    row("aten.l1_loss", "self, target, reduction=1", loss::l1),
    row("aten.smooth_l1_loss", "self, target, reduction=1, beta=1", loss::smooth_l1),
    row("aten.huber_loss", "self, target, reduction=1, delta=1", loss::huber),
    row("aten.kl_div", "self, target, reduction=1, log_target=False", loss::kl_div),
    row("aten.binary_cross_entropy", "self, target, weight=None, reduction=1", loss::binary_cross_entropy),
    row(
        "aten.binary_cross_entropy_with_logits",
        "self, target, weight=None, pos_weight=None, reduction=1",
        loss::binary_cross_entropy_with_logits,
    ),
    row("aten.margin_ranking_loss", "input1, input2, target, margin=0, reduction=1", loss::margin_ranking),
    row("aten.hinge_embedding_loss", "self, target, margin=1, reduction=1", loss::hinge_embedding),
    row("aten.cosine_embedding_loss", "input1, input2, target, margin=0, reduction=1", loss::cosine_embedding),
    row(
        "aten.triplet_margin_loss",
        "anchor, positive, negative, margin=1, p=2, eps=1e-06, swap=False, reduction=1",
        loss::triplet_margin,
    ),
    row("aten.soft_margin_loss", "self, target, reduction=1", loss::soft_margin),
    row("aten.poisson_nll_loss", "input, target, log_input, full, eps, reduction", loss::poisson_nll),
    row("aten.nll_loss", "self, target, weight=None, reduction=1, ignore_index=-100", entropy::nll),
    row(
        "aten.cross_entropy_loss",
        "self, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0",
        entropy::cross_entropy,
    ),
];
