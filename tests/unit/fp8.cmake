# Linear layers in the types of a recipe, and the loss scale of fp16.
# SPDX-License-Identifier: Apache-2.0
trireme_test(linear_test SOURCES linear_test.cpp USES nn comm)
trireme_test(loss_scaler_test SOURCES loss_scaler_test.cpp USES optim)
