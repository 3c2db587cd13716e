"""SyncBatchNorm in one process is BatchNorm; several ranks are in tests/distributed/test_reducer.py."""

from __future__ import annotations

import extempo as ex
from extempo import nn


def test_a_converted_model_computes_the_same():
    net = nn.Sequential(nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3), nn.Sequential(nn.BatchNorm2d(3)))
    x = ex.randn(4, 2, 5, 5)
    expected = net(x).tolist()
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert [type(m).__name__ for m in (converted[1], converted[2][0])] == ["SyncBatchNorm"] * 2
    assert converted[2][0].layer_name == "2.0"
    assert converted(x).tolist() == expected
    converted.eval()
    assert converted(x).shape == (4, 3, 5, 5)
