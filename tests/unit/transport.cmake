# The choice of devices and transports.
# SPDX-License-Identifier: Apache-2.0
trireme_test(transport_test SOURCES transport_test.cpp USES base comm)
