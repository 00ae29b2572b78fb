"""The sentence for another version of Python; `gapless.pyz` runs it before anything else."""

import glob
import os
import sys

site_packages = globals()["site_packages"]  # given by shiv

if not glob.glob(os.path.join(site_packages, "_cffi_backend.cpython-%d%d-*" % sys.version_info[:2])):
    sys.exit(
        "gapless: this file is for another version of Python than %d.%d; take the one with cp%d%d in its name."
        % (sys.version_info[:2] + sys.version_info[:2])
    )
