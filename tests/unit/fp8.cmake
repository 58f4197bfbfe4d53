# Linear layers in the types of a recipe, and the loss scale of fp16.
# SPDX-License-Identifier: Apache-2.0
trireme_test(linear_test SOURCES linear_test.cpp USES nn comm)
trireme_test(loss_scaler_test SOURCES loss_scaler_test.cpp USES optim)
trireme_test(module_precision_test SOURCES module_precision_test.cpp USES nn comm)
trireme_test(recipe_products_test
             SOURCES recipe_products_test.cpp ${CMAKE_CURRENT_SOURCE_DIR}/../support/mesh_run.cpp
             USES train)
