"""`import torch` means Extempo in a process that asked for it, and nowhere else."""

from __future__ import annotations

import subprocess
import sys


def printed(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_torch_and_its_submodules_are_extempo():
    assert printed(
        "import extempo.as_torch, torch, extempo\n"
        "import torch.nn.functional as F\n"
        "from torch import nn\n"
        "from torch.nn.modules.linear import Linear\n"
        "from torch.utils.data.dataset import Subset\n"
        "from torch.optim.adam import Adam\n"
        "from torch.distributions.normal import Normal\n"
        "from torch.backends import cudnn\n"
        "import torch.multiprocessing as mp\n"
        "print(Linear is extempo.nn.Linear, F.relu is extempo.nn.functional.relu, Subset is extempo.data.Subset)\n"
        "print(Adam is extempo.optim.Adam, Normal is extempo.distributions.Normal, mp.Process.__name__)\n"
        "print(torch.Tensor is extempo.Tensor, torch.nn is nn, torch.cuda.is_available())\n"
    ) == ("True True True\nTrue True Process\nTrue True False\n")


def test_libraries_that_ask_for_the_version_find_pytorchs():
    program = (
        "import extempo.as_torch, importlib.metadata, torch\n"
        "print(torch.__version__, torch.version.__version__, torch.version.cuda)\n"
        "print(importlib.metadata.version('torch'), importlib.metadata.distribution('torch').metadata['Name'])\n"
        "print(importlib.metadata.version('numpy') != '')\n"
    )
    assert printed(program) == "2.13.0 2.13.0 None\n2.13.0 torch\nTrue\n"


def test_a_module_that_pytorch_does_not_have_is_not_found():
    program = (
        "import extempo.as_torch\n"
        "for name in ('torch.nonsense', 'torch.optim.change_detection', 'torch.core'):\n"
        "    try:\n"
        "        __import__(name)\n"
        "    except ModuleNotFoundError as error:\n"
        "        print(error)\n"
    )
    lines = printed(program).splitlines()
    assert [line.split("'")[1] for line in lines] == ["torch.nonsense", "torch.optim.change_detection", "torch.core"]


def test_modules_that_are_refused_are_refused_when_they_are_used():
    program = (
        "import extempo.as_torch, torch\n"
        "import torch.fx.experimental\n"
        "from torch.package import PackageExporter as export\n"
        "from torch.fx import Tracer\n"
        "class Mine(Tracer): pass\n"
        "print(isinstance(3, Tracer), export is torch.package.PackageExporter)\n"
        "for use in (export, Mine, lambda: Tracer.trace):\n"
        "    try:\n"
        "        use()\n"
        "    except extempo.errors.UnsupportedError as error:\n"
        "        print(error)\n"
    )
    lines = printed(program).splitlines()
    assert lines[0] == "False True"
    assert lines[1].startswith("torch.package.PackageExporter: ")
    assert len(lines) == 4
    assert "ex.Graph.of" in lines[2]


def test_a_name_that_is_not_there_suggests_the_nearest_and_is_noted_with_its_line(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("import torch\n\ntorch.tensr\n")
    done = subprocess.run(
        [sys.executable, "-m", "extempo", "run", str(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "module 'torch' has no attribute 'tensr'; did you mean 'tensor'?" in done.stderr
    assert f"torch.tensr  ({script}:3)" in done.stderr


def test_pytorch_itself_must_not_be_loaded_already():
    program = (
        "import sys, types\n"
        "sys.modules['torch'] = types.ModuleType('torch')\n"
        "try:\n"
        "    import extempo.as_torch\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    assert printed(program).startswith("UnsupportedError extempo.as_torch: PyTorch itself is loaded already")


def test_this_process_is_left_alone():
    from extempo.compat.torch_namespace.finder import TorchFinder

    assert not any(isinstance(finder, TorchFinder) for finder in sys.meta_path)


def test_settings_that_are_assigned_reach_extempo():
    program = (
        "import extempo.as_torch, torch, extempo\n"
        "torch.backends.cudnn.benchmark = True\n"
        "print(extempo.backends.cudnn.benchmark)\n"
        "torch.my_own = 3\n"
        "print(torch.my_own, hasattr(extempo, 'my_own'))\n"
    )
    assert printed(program) == "True\n3 False\n"


def test_names_that_programs_import_are_there_and_refusals_come_when_they_are_used():
    program = (
        "import extempo.as_torch, torch\n"
        "from torch import GradScaler, fft, sparse_coo_tensor\n"
        "from torch.autograd.gradcheck import GradcheckError, gradcheck\n"
        "from torch.autograd.profiler import profile, record_function\n"
        "from torch.nn.attention import SDPBackend, sdpa_kernel\n"
        "from torch.nn.attention.flex_attention import flex_attention\n"
        "from torch.optim import Adafactor, Muon, SparseAdam\n"
        "from torch.utils.data.distributed import DistributedSampler\n"
        "from torch.utils.dlpack import from_dlpack, to_dlpack\n"
        "import torch.autograd.forward_ad as fwAD\n"
        "import torch.nn.utils.prune as prune\n"
        "from torch.nn.utils.stateless import functional_call\n"
        "print(GradScaler is torch.amp.GradScaler, torch.accelerator.is_available(), bool(torch.__config__.show()))\n"
        "print(from_dlpack(to_dlpack(torch.ones(2))).tolist(), isinstance(3, SparseAdam))\n"
        "again = torch.sparse_coo_tensor\n"
        "with fwAD.dual_level():\n"
        "    print(fwAD.unpack_dual(fwAD.make_dual(torch.ones(1), torch.ones(1)) * 2).tangent.tolist())\n"
        "for use in (flex_attention, sparse_coo_tensor, SparseAdam, again, fft.rfft):\n"
        "    try:\n"
        "        use(1)\n"
        "    except NotImplementedError as error:\n"
        "        print(str(error).split(':')[0])\n"
    )
    assert printed(program).splitlines() == [
        "True False True",
        "[1.0, 1.0] False",
        "[2.0]",
        "torch.nn.attention.flex_attention.flex_attention",
        "torch.sparse_coo_tensor",
        "torch.optim.SparseAdam",
        "torch.sparse_coo_tensor",
        "torch.fft.rfft",
    ]


def test_names_of_other_devices_import_and_refuse_in_words():
    program = (
        "import extempo.as_torch, torch\n"
        "from torch.cuda import CUDAGraph, Stream, nvtx\n"
        "from torch.cuda.streams import Event\n"
        "print(hasattr(torch.cuda, 'CUDAGraph'), hasattr(torch.cuda, 'CUDAGraf'), isinstance(3, torch.cuda.Stream))\n"
        "print(torch.cuda.OutOfMemoryError is torch.OutOfMemoryError)\n"
        "for use in (torch.cuda.CUDAGraph, Stream, Event, torch.cuda.synchronize, torch.mps.synchronize):\n"
        "    try:\n"
        "        use()\n"
        "    except NotImplementedError as error:\n"
        "        print(str(error).split(';')[0])\n"
    )
    assert printed(program).splitlines() == [
        "True False False",
        "True",
        "torch.cuda.CUDAGraph: Extempo runs on the CPU",
        "torch.cuda.Stream: Extempo runs on the CPU",
        "torch.cuda.streams.Event: Extempo runs on the CPU",
        "torch.cuda.synchronize: Extempo runs on the CPU",
        "torch.mps.synchronize: Extempo runs on the CPU",
    ]


def test_stretches_of_code_have_names_and_data_pipes_are_refused():
    program = (
        "import extempo.as_torch, torch\n"
        "from torch.autograd.profiler_util import EventList\n"
        "from torch.profiler import profile, record_function\n"
        "from torch.utils.data import DataLoader, IterDataPipe, functional_datapipe\n"
        "with record_function('forward'):\n"
        "    print(torch.ones(1).item(), torch.hub.HASH_REGEX.search('net-0a1b.pth')[1])\n"
        "Pipe = functional_datapipe('pipe')(type('Pipe', (IterDataPipe,), {}))\n"
        "with profile() as timed, record_function('again'):\n"
        "    pass\n"
        "print(timed.key_averages()[0].key)\n"
        "for use in (torch.profiler.ExecutionTraceObserver, Pipe):\n"
        "    try:\n"
        "        use()\n"
        "    except NotImplementedError as error:\n"
        "        print(str(error).split(':')[0])\n"
    )
    assert printed(program).splitlines() == [
        "1.0 0a1b",
        "again",
        "torch.profiler.ExecutionTraceObserver",
        "torch.utils.data.IterDataPipe",
    ]


def test_what_stands_below_a_module_of_settings_or_a_refused_one_is_reached_by_its_name():
    program = (
        "import extempo.as_torch, torch\n"
        "torch.backends.cuda.matmul.allow_tf32 = True\n"
        "print(torch.backends.cuda.matmul.allow_tf32)\n"
        "def of(node: torch.fx.node.Node) -> torch.fx.Node: ...\n"
        "from torch.functional import F\n"
        "print(F.relu is torch.nn.functional.relu)\n"
    )
    assert printed(program).splitlines() == ["True", "True"]


def test_dtypes_sizes_and_types_of_tensors_are_printed_as_torchs():
    program = (
        "import extempo.as_torch, torch, copy, pickle, tempfile\n"
        "x = torch.ones(2, dtype=torch.float64)\n"
        "print(x.dtype, x.shape, x.type(), torch.strided, x)\n"
        "print(type(x), copy.deepcopy(x).equal(x), pickle.loads(pickle.dumps(x)).equal(x))\n"
        "print(str(x.dtype) == 'torch.float64', x.type('torch.FloatTensor').dtype is torch.float32)\n"
        "torch.save({'dtype': x.dtype, 'x': x}, path := tempfile.mktemp())\n"
        "torch.testing.assert_close(torch.load(path)['x'], x)\n"
        "print(torch.load(path)['dtype'])\n"
    )
    assert printed(program).splitlines() == [
        "torch.float64 torch.Size([2]) torch.DoubleTensor torch.strided tensor([1., 1.], dtype=torch.float64)",
        "<class 'torch.Tensor'> True True",
        "True True",
        "torch.float64",
    ]


def test_settings_of_pytorchs_compiler_can_be_imported_and_set():
    program = (
        "import extempo.as_torch, torch\n"
        "import torch._dynamo.config, torch._inductor.config\n"
        "torch._dynamo.config.suppress_errors = True\n"
        "torch._inductor.config.coordinate_descent_tuning = True\n"
        "print(torch._dynamo.config.suppress_errors)\n"
    )
    assert printed(program).splitlines() == ["True"]
