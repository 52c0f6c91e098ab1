"""Exceptions of Python in all ranks while a job is launched: of the script or of a library."""

from __future__ import annotations

from prism_sim.logs.failures.base import (
    ACME,
    RaisesAtLaunch,
    called,
    script,
)


class BadArgument(RaisesAtLaunch):
    name = "bad_argument"
    about = "An option of the script does not exist"
    symptom = "bad_argument"
    category = "user"
    count = 3
    source = ACME
    launched = 0.1
    call = script("arguments.py", 88, "parse_args", "args = parser.parse_args()")
    text = "SystemExit: 2\npretrain_gpt.py: error: unrecognized arguments: --sequence-paralel"


class ImportRaised(RaisesAtLaunch):
    name = "import_error"
    about = "A package is missing or has a wrong version"
    symptom = "import_error"
    category = "user"
    count = 111
    source = ACME
    launched = 0.08
    call = script(
        "model/attention.py", 14, "<module>", "from flash_attn import flash_attn_varlen_func"
    )
    text = "ImportError: cannot import name 'flash_attn_varlen_func' from 'flash_attn'"


class SyntaxRaised(RaisesAtLaunch):
    name = "syntax_error"
    about = "The script is not valid Python"
    symptom = "syntax_error"
    category = "user"
    count = 10
    source = ACME
    launched = 0.06
    call = script("data/mixture.py", 63, "<module>", "weights = {**base, code=0.2}")
    text = "SyntaxError: invalid syntax"


class NameRaised(RaisesAtLaunch):
    name = "name_error"
    about = "A name in the script is not defined"
    symptom = "name_error"
    category = "user"
    count = 18
    source = ACME
    launched = 0.3
    call = script("model/layers.py", 141, "__init__", "self.rope = Rope(rotary_dim)")
    text = "NameError: name 'rotary_dim' is not defined"


class TypeRaised(RaisesAtLaunch):
    name = "type_error"
    about = "A function of the script is called wrongly"
    symptom = "type_error"
    category = "user"
    count = 620
    source = ACME
    launched = 0.6
    call = script("data/build.py", 37, "build_all", "train = build_dataset(path, seed=seed)")
    text = "TypeError: build_dataset() got an unexpected keyword argument 'seed'"


class KeyRaised(RaisesAtLaunch):
    name = "key_error"
    about = "The configuration lacks a key"
    symptom = "key_error"
    category = "user"
    count = 260
    source = ACME
    launched = 0.4
    call = script("config.py", 52, "schedule", "warmup = config['lr_warmup_tokens']")
    text = "KeyError: 'lr_warmup_tokens'"


class MissingFile(RaisesAtLaunch):
    name = "missing_file"
    about = "A file of the user does not exist"
    symptom = "missing_file"
    category = "user"
    count = 568
    source = ACME
    launched = 0.7
    call = script("data/indexed.py", 301, "__init__", "with open(path, 'rb') as stream:")
    text = "FileNotFoundError: [Errno 2] No such file or directory: '/data/{user}/tokens_0012.idx'"


class PermissionDenied(RaisesAtLaunch):
    name = "permission_denied"
    about = "The user may not read a file"
    symptom = "permission_denied"
    category = "user"
    count = 7
    source = ACME
    launched = 0.5
    held_out = True
    call = script("data/tokenizer.py", 29, "load", "return open(path, 'rb').read()")
    text = "PermissionError: [Errno 13] Permission denied: '/data/shared/tokenizer.model'"


class ModelLoadingError(RaisesAtLaunch):
    name = "model_loading_error"
    about = "A checkpoint does not fit the model"
    symptom = "model_loading"
    category = "framework"
    count = 104
    source = ACME
    launched = 0.85
    call = called("torch/nn/modules/module.py", 2581, "load_state_dict", "raise RuntimeError(")
    text = (
        "RuntimeError: Error(s) in loading state_dict for GPTModel:\n\tsize mismatch for "
        "embedding.word_embeddings.weight: copying a param with shape torch.Size([50304, "
        "4096]) from checkpoint, the shape in current model is torch.Size([51200, 4096])."
    )


class DatasetLoadingError(RaisesAtLaunch):
    name = "dataset_loading_error"
    about = "The data set cannot be built"
    symptom = "dataset_loading"
    category = "framework"
    count = 5
    source = ACME
    launched = 0.75
    call = script("data/build.py", 90, "build_all", "raise ValueError(text)")
    text = "ValueError: no samples remain after filtering: requested 1048576, found 0"
