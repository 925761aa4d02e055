# SPDX-License-Identifier: GPL-2.0
"""kunit.py --qemu_config that never touches KVM.

kunit.py always passes `-accel kvm -accel hvf -accel tcg`, and QEMU takes the
first that opens, even when guests then hang under it. No later option undoes
that, so run qemu-system-x86_64-tcg, the wrapper beside this file.
"""
import os

from ..qemu_config import QemuArchParams

os.environ['PATH'] = os.path.dirname(os.path.abspath(__file__)) + ':' + os.environ['PATH']

QEMU_ARCH = QemuArchParams(linux_arch='x86_64',
                           kconfig='''
CONFIG_SERIAL_8250=y
CONFIG_SERIAL_8250_CONSOLE=y''',
                           qemu_arch='x86_64-tcg',
                           kernel_path='arch/x86/boot/bzImage',
                           # -no-reboot turns a panic's reboot into the end of QEMU.
                           kernel_command_line='console=ttyS0 panic=-1',
                           extra_qemu_params=['-bios', 'qboot.rom'])
