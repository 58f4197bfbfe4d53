# The smoke tests of the Spack package on an installed tree, without Spack.
# SPDX-License-Identifier: Apache-2.0
# Usage: spack_smoke.py PACKAGE.PY PREFIX MPIEXEC
#
# Stands in for the few names of spack.package that the package uses.
import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import types


class Prefix(str):
    def __getattr__(self, name):
        return self.join(name)

    def join(self, name):
        return Prefix(os.path.join(str(self), name))


class Executable:
    def __init__(self, path):
        self.path, self.environment = path, dict(os.environ)

    def add_default_env(self, name, value):
        self.environment[name] = value

    def __call__(self, *arguments, **_):
        run = subprocess.run(
            [self.path, *map(str, arguments)],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        assert run.returncode == 0, f"{self.path} {arguments}: {run.returncode}\n{run.stdout}"
        return run.stdout


def which(*names, path=None, required=False):
    folders = os.pathsep.join(path) if path else None
    found = [one for one in (shutil.which(name, path=folders) for name in names) if one]
    assert found or not required, f"no {names}"
    return Executable(found[0]) if found else None


def nothing(*_, **__):
    """A directive, or a decorator that changes nothing."""
    return lambda method: method


def load(path):
    package = types.ModuleType("spack.package")
    directives = "conflicts depends_on generator license variant version"
    for name in directives.split() + ["run_after", "on_package_attributes"]:
        setattr(package, name, nothing)
    package.when = lambda _: contextlib.nullcontext()
    package.which = which
    package.SkipTest = RuntimeError
    package.CMakePackage = type("CMakePackage", (), {})
    package.CudaPackage = type("CudaPackage", (), {"cuda_arch_values": ("80", "90")})
    sys.modules["spack"] = types.ModuleType("spack")
    sys.modules["spack.package"] = package
    spec = importlib.util.spec_from_file_location("trireme_package", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Trireme()


def main(path, prefix, mpiexec):
    package = load(path)
    package.prefix = Prefix(prefix)
    mpi = types.SimpleNamespace(prefix=Prefix(os.path.dirname(os.path.dirname(mpiexec))))
    package.spec = {"mpi": mpi}
    tests = [name for name in dir(package) if name.startswith("test_")]
    assert tests, "the package has no tests"
    for name in tests:
        getattr(package, name)()
        print("passed:", name)


main(*sys.argv[1:])
