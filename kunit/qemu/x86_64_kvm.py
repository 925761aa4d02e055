# SPDX-License-Identifier: GPL-2.0
"""kunit.py --qemu_config for a machine whose KVM is proven to boot a kernel."""
from ..qemu_config import QemuArchParams

QEMU_ARCH = QemuArchParams(linux_arch='x86_64',
                           kconfig='''
CONFIG_SERIAL_8250=y
CONFIG_SERIAL_8250_CONSOLE=y''',
                           qemu_arch='x86_64',
                           kernel_path='arch/x86/boot/bzImage',
                           # -no-reboot turns a panic's reboot into the end of QEMU.
                           kernel_command_line='console=ttyS0 panic=-1',
                           extra_qemu_params=['-bios', 'qboot.rom'])
