"""Losses and structured layers for networks: `TaskLoss`, `CRF` and `OrderedThresholds`."""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError('taskloss.torch needs PyTorch: pip install "taskloss[torch]".') from error

from .crf import CRF
from .heads import OrderedThresholds
from .loss import TaskLoss

__all__ = ["CRF", "OrderedThresholds", "TaskLoss"]
