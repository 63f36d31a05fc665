package org.iq80.leveldb.impl;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.iq80.leveldb.DB;
import org.iq80.leveldb.DBFactory;
import org.iq80.leveldb.Options;
import org.terracedb.TerraceFactory;

/** Terrace in the place of iq80's factory, for iq80's tests. */
public class Iq80DBFactory implements DBFactory {
    public static final Iq80DBFactory factory = new Iq80DBFactory();

    public static byte[] bytes(String value) {
        return value == null ? null : value.getBytes(StandardCharsets.UTF_8);
    }

    public static String asString(byte[] value) {
        return value == null ? null : new String(value, StandardCharsets.UTF_8);
    }

    @Override
    public DB open(File path, Options options) throws IOException {
        return TerraceFactory.factory.open(path, options);
    }

    @Override
    public void destroy(File path, Options options) throws IOException {
        TerraceFactory.factory.destroy(path, options);
    }

    @Override
    public void repair(File path, Options options) throws IOException {
        TerraceFactory.factory.repair(path, options);
    }
}
